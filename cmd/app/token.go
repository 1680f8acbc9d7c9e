package app

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/rollcall-mesh/rollcall/schema"
)

// TokenCmd makes a token for development, signed with HS256. In production the application's own
// login service makes them.
type TokenCmd struct {
	UID      schema.UID        `arg:"" name:"uid" help:"The user: claim sub."`
	KeyFile  string            `name:"jwt-key" placeholder:"FILE" xor:"key" required:"" help:"File with the secret, the one that the gateway is given."`
	Secret   string            `name:"jwt-secret" secret:"" placeholder:"SECRET" xor:"key" required:"" help:"The secret itself. Give it as $$ROLLCALL_JWT_SECRET: arguments stand in the process list."`
	Expires  time.Duration     `name:"expires" default:"1h" help:"How long it is good."`
	Device   schema.DeviceID   `name:"device" placeholder:"ID" help:"Claim device; the client may then be no other."`
	Flag     schema.Flag       `name:"flag" placeholder:"NAME" help:"Claim flag."`
	Level    string            `name:"level" enum:"master,slave," default:"" placeholder:"master|slave" help:"Claim level."`
	Gen      schema.Generation `name:"gen" placeholder:"N" help:"Login generation: a lower one never displaces a higher one."`
	ID       string            `name:"token-id" placeholder:"ID" help:"Claim jti, by which the token can be revoked."`
	Audience string            `name:"jwt-audience" placeholder:"NAME" help:"Claim aud."`
	Issuer   string            `name:"jwt-issuer" placeholder:"NAME" help:"Claim iss."`
	Watch    []schema.UID      `name:"watch" placeholder:"UID" help:"Users whose presence the client may watch."`
}

// Run prints it.
func (c *TokenCmd) Run(s *session) error {
	if err := c.UID.Check(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	secret := []byte(c.Secret)
	if c.KeyFile != "" {
		b, err := os.ReadFile(c.KeyFile)
		if err != nil {
			return fmt.Errorf("%w: --jwt-key %s: %w", errUsage, c.KeyFile, reason(err))
		}
		secret = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c.claims(time.Now())).SignedString(secret)
	if err != nil {
		return fmt.Errorf("sign the token: %w", err)
	}
	_, err = fmt.Fprintln(s.out, token)
	return err
}

// claims are those of gateway/PROTOCOL.md; what was not given is left out, so that the client's own
// word holds.
func (c *TokenCmd) claims(now time.Time) jwt.MapClaims {
	claims := jwt.MapClaims{"sub": c.UID, "iat": now.Unix(), "exp": now.Add(c.Expires).Unix()}
	set := func(name string, value any, given bool) {
		if given {
			claims[name] = value
		}
	}
	set("device", c.Device, c.Device != "")
	set("flag", c.Flag, c.Flag != "")
	set("level", c.Level, c.Level != "")
	set("gen", c.Gen, c.Gen > 0)
	set("jti", c.ID, c.ID != "")
	set("aud", c.Audience, c.Audience != "")
	set("iss", c.Issuer, c.Issuer != "")
	set("watch", c.Watch, len(c.Watch) > 0)
	return claims
}
