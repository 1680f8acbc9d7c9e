package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"github.com/rollcall-mesh/rollcall/schema"
)

// JWTConfig says which tokens are good. Exactly one of KeyFile and JWKSURL is set.
type JWTConfig struct {
	// Algorithm is the only one taken: HS256, RS256, ES256 or EdDSA. A token's own header never
	// chooses.
	Algorithm string
	// KeyFile holds the key: for HS256 the secret (at least 32 bytes, one newline at the end is
	// cut off), else a public key or certificate in PEM; or a JWK set in JSON.
	KeyFile string
	// JWKSURL is where a JWK set is fetched, now and every hour, and for an unknown key id at most
	// every 5 minutes.
	JWKSURL string
	// Audience and Issuer must stand in the token where they are set here.
	Audience, Issuer string
	// Leeway is how far clocks may differ. Default none.
	Leeway time.Duration
	// Log gets what goes wrong with fetching keys; discarded by default.
	Log *slog.Logger
}

// errNoKeys is returned when no keys could be fetched yet: whether a token is good cannot be told, and
// its client must not be told to stop.
var errNoKeys = errors.New("no keys for tokens fetched yet")

// minSecret is what RFC 7518 asks of an HS256 key, in bytes.
const minSecret = 32

// JWT authenticates by signed tokens.
type JWT struct {
	parser *jwt.Parser
	keys   jwt.Keyfunc
}

// claims are what a token says. Pointers tell what it says from what it leaves to the client.
type claims struct {
	jwt.RegisteredClaims
	Device *schema.DeviceID  `json:"device"`
	Flag   *schema.Flag      `json:"flag"`
	Level  *string           `json:"level"`
	Gen    schema.Generation `json:"gen"`
	Watch  []schema.UID      `json:"watch"`
}

// NewJWT reads the keys. Where they come from a URL, it refreshes them until ctx ends, and starts
// without them where they cannot be fetched yet.
func NewJWT(ctx context.Context, c JWTConfig) (*JWT, error) {
	keys, err := c.keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("jwt: %w", err)
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods([]string{c.Algorithm}), jwt.WithExpirationRequired(), jwt.WithLeeway(c.Leeway),
	}
	if c.Audience != "" {
		options = append(options, jwt.WithAudience(c.Audience))
	}
	if c.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.Issuer))
	}
	return &JWT{jwt.NewParser(options...), keys}, nil
}

func (c *JWTConfig) keys(ctx context.Context) (jwt.Keyfunc, error) {
	switch c.Algorithm {
	case "HS256", "RS256", "ES256", "EdDSA":
	default:
		return nil, fmt.Errorf("algorithm %q: it takes HS256, RS256, ES256 or EdDSA", c.Algorithm)
	}
	switch {
	case (c.KeyFile == "") == (c.JWKSURL == ""):
		return nil, errors.New("give either a key file or a JWKS URL")
	case c.JWKSURL != "":
		return c.fetchedKeys(ctx)
	}
	data, err := os.ReadFile(c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	keys, err := c.fileKeys(data)
	if err != nil {
		return nil, fmt.Errorf("key file %s for %s: %w", c.KeyFile, c.Algorithm, err)
	}
	return keys, nil
}

func (c *JWTConfig) fileKeys(data []byte) (jwt.Keyfunc, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		set, err := keyfunc.NewJWKSetJSON(data)
		if err != nil {
			return nil, err
		}
		return set.Keyfunc, nil
	}
	var key any
	var err error
	switch c.Algorithm {
	case "HS256":
		secret := bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
		if len(secret) < minSecret {
			err = fmt.Errorf("the secret has %d bytes: it takes at least %d", len(secret), minSecret)
		}
		key = secret
	case "RS256":
		key, err = jwt.ParseRSAPublicKeyFromPEM(data)
	case "ES256":
		key, err = jwt.ParseECPublicKeyFromPEM(data)
	case "EdDSA":
		key, err = jwt.ParseEdPublicKeyFromPEM(data)
	}
	return func(*jwt.Token) (any, error) { return key, nil }, err
}

func (c *JWTConfig) fetchedKeys(ctx context.Context) (jwt.Keyfunc, error) {
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	set, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{c.JWKSURL}, keyfunc.Override{
		RateLimitWaitMax: time.Second,
		HTTPTimeout:      10 * time.Second,
		RefreshErrorHandlerFunc: func(url string) func(context.Context, error) {
			return func(_ context.Context, err error) { log.Warn("keys for tokens not fetched", "url", url, "err", err) }
		},
	})
	if err != nil {
		return nil, fmt.Errorf("JWKS URL: %w", err)
	}
	return func(t *jwt.Token) (any, error) {
		key, err := set.Keyfunc(t) // which fetches them again, where it may
		if all, failed := set.Storage().KeyReadAll(ctx); failed != nil || len(all) == 0 {
			return nil, errNoKeys
		}
		return key, err
	}, nil
}

// Authenticate checks the token's signature, algorithm, times and claims.
func (j *JWT) Authenticate(_ context.Context, c Credentials) (Identity, error) {
	var said claims
	_, err := j.parser.ParseWithClaims(c.Token, &said, j.keys)
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return Identity{}, fmt.Errorf("%w: %s ago", ErrTokenExpired, time.Since(said.ExpiresAt.Time).Round(time.Second))
	case errors.Is(err, errNoKeys):
		return Identity{}, fmt.Errorf("jwt: %w", errNoKeys)
	case err != nil:
		return Identity{}, fmt.Errorf("%w: %w", ErrBadToken, err)
	}
	return said.identity(c)
}

// identity joins what the token says with what it leaves open.
func (said *claims) identity(c Credentials) (Identity, error) {
	id := Identity{
		UID: schema.UID(said.Subject), Device: c.Device, Flag: c.Flag, Level: c.Level,
		Gen: said.Gen, TokenID: said.ID, Expires: said.ExpiresAt.Time, Watch: said.Watch,
	}
	if said.Device != nil {
		id.Device = *said.Device
	}
	if said.Flag != nil {
		id.Flag = *said.Flag
	}
	if said.Level != nil {
		level, err := schema.ParseLevel(*said.Level)
		if err != nil {
			return Identity{}, fmt.Errorf("%w: %w", ErrBadToken, err)
		}
		id.Level = level
	}
	if exp := said.ExpiresAt.Unix(); exp > lastSecond { // it would never end
		return Identity{}, fmt.Errorf("%w: exp is %d: it takes unix seconds", ErrBadToken, exp)
	}
	return id, id.check()
}
