package gateway

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

const secret = "0123456789abcdef0123456789abcdef"

var said = Credentials{Device: "mine", Flag: "web", Level: schema.Master}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func sign(t *testing.T, method jwt.SigningMethod, key any, c jwt.MapClaims) string {
	t.Helper()
	if _, ok := c["exp"]; !ok {
		c["exp"] = time.Now().Add(time.Hour).Unix()
	}
	token, err := jwt.NewWithClaims(method, c).SignedString(key)
	require.NoError(t, err)
	return token
}

func hs256(t *testing.T, c JWTConfig) *JWT {
	t.Helper()
	c.Algorithm, c.KeyFile = "HS256", file(t, secret+"\n")
	j, err := NewJWT(t.Context(), c)
	require.NoError(t, err)
	return j
}

func try(t *testing.T, a Authenticator, token string) (Identity, error) {
	t.Helper()
	c := said
	c.Token = token
	return a.Authenticate(t.Context(), c)
}

func TestJWTClaims(t *testing.T) {
	j := hs256(t, JWTConfig{})
	exp := time.Now().Add(time.Hour).Truncate(time.Second)
	id, err := try(t, j, sign(t, jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"sub": "alice", "exp": exp.Unix()}))
	require.NoError(t, err)
	require.Equal(t, Identity{UID: "alice", Device: "mine", Flag: "web", Level: schema.Master, Expires: exp}, id, "what the token leaves open is the client's")

	id, err = try(t, j, sign(t, jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{
		"sub": "alice", "exp": exp.Unix(), "device": "", "flag": "app", "level": "slave", "gen": 7, "jti": "t1", "watch": []string{"bob"},
	}))
	require.NoError(t, err)
	require.Equal(t, Identity{UID: "alice", Flag: "app", Gen: 7, TokenID: "t1", Expires: exp, Watch: []schema.UID{"bob"}}, id, "what the token says wins")
	require.Equal(t, []schema.UID{"carol"}, id.unlisted([]schema.UID{"alice", "carol", "bob"}))
}

func TestJWTRefuses(t *testing.T) {
	j := hs256(t, JWTConfig{Audience: "chat", Issuer: "us"})
	good := func(change jwt.MapClaims) jwt.MapClaims {
		c := jwt.MapClaims{"sub": "alice", "aud": "chat", "iss": "us"}
		maps.Copy(c, change)
		return c
	}
	_, err := try(t, j, sign(t, jwt.SigningMethodHS256, []byte(secret), good(nil)))
	require.NoError(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, token := range map[string]string{
		"empty":              "",
		"no token":           "alice",
		"another secret":     sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), good(nil)),
		"another hash":       sign(t, jwt.SigningMethodHS512, []byte(secret), good(nil)),
		"another algorithm":  sign(t, jwt.SigningMethodRS256, rsaKey, good(nil)),
		"no algorithm":       sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good(nil)),
		"no exp":             sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"exp": nil})),
		"exp in ms":          sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"exp": time.Now().Add(time.Hour).UnixMilli()})),
		"not yet":            sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"nbf": time.Now().Add(time.Minute).Unix()})),
		"another audience":   sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"aud": "mail"})),
		"another issuer":     sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"iss": "them"})),
		"no sub":             sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"sub": nil})),
		"sub with a control": sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"sub": "a\nb"})),
		"long device":        sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"device": strings.Repeat("d", 129)})),
		"flag in upper case": sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"flag": "APP"})),
		"unknown level":      sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"level": "boss"})),
		"gen below zero":     sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"gen": -1})),
		"watch is no list":   sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"watch": "bob"})),
		"expired, other key": sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), good(jwt.MapClaims{"exp": 1})),
	} {
		_, err := try(t, j, token)
		require.ErrorIs(t, err, ErrBadToken, name)
		require.NotErrorIs(t, err, ErrTokenExpired, name)
	}
	_, err = try(t, j, sign(t, jwt.SigningMethodHS256, []byte(secret), good(jwt.MapClaims{"exp": time.Now().Add(-time.Minute).Unix()})))
	require.ErrorIs(t, err, ErrTokenExpired)
	require.NotErrorIs(t, err, ErrBadToken)
}

func TestJWTLeeway(t *testing.T) {
	token := sign(t, jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"sub": "alice", "exp": time.Now().Add(-30 * time.Second).Unix()})
	_, err := try(t, hs256(t, JWTConfig{Leeway: time.Minute}), token)
	require.NoError(t, err)
}

func publicPEM(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestJWTAlgorithms(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for algorithm, k := range map[string]struct {
		method  jwt.SigningMethod
		private any
		public  any
	}{
		"RS256": {jwt.SigningMethodRS256, rsaKey, &rsaKey.PublicKey},
		"ES256": {jwt.SigningMethodES256, ecKey, &ecKey.PublicKey},
		"EdDSA": {jwt.SigningMethodEdDSA, edKey, edPublic},
	} {
		public := publicPEM(t, k.public)
		j, err := NewJWT(t.Context(), JWTConfig{Algorithm: algorithm, KeyFile: file(t, public)})
		require.NoError(t, err, algorithm)
		id, err := try(t, j, sign(t, k.method, k.private, jwt.MapClaims{"sub": "alice"}))
		require.NoError(t, err, algorithm)
		require.Equal(t, schema.UID("alice"), id.UID)
		_, err = try(t, j, sign(t, jwt.SigningMethodHS256, []byte(public), jwt.MapClaims{"sub": "alice"}))
		require.ErrorIs(t, err, ErrBadToken, "%s: the public key is no secret", algorithm)
	}
}

func keySet(kid, secret string) string {
	set := map[string]any{"keys": []any{map[string]string{
		"kty": "oct", "kid": kid, "alg": "HS256", "k": base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}}}
	b, _ := json.Marshal(set)
	return string(b)
}

// Where the keys cannot be fetched at the start no token is called bad, which would end its client.
func TestJWTWithoutKeysYet(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	j, err := NewJWT(t.Context(), JWTConfig{Algorithm: "HS256", JWKSURL: server.URL})
	require.NoError(t, err)
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "alice", "exp": time.Now().Add(time.Hour).Unix()})
	for _, kid := range []any{"k1", "k2", nil} {
		if token.Header["kid"] = kid; kid == nil {
			delete(token.Header, "kid")
		}
		signed, err := token.SignedString([]byte(secret))
		require.NoError(t, err)
		_, err = try(t, j, signed)
		require.ErrorContains(t, err, "no keys", kid)
		require.NotErrorIs(t, err, ErrBadToken, kid)
	}
}

func TestJWTKeySets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(keySet("k1", secret))) }))
	defer server.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "alice", "exp": time.Now().Add(time.Hour).Unix()})
	token.Header["kid"] = "k1"
	signed, err := token.SignedString([]byte(secret))
	require.NoError(t, err)
	token.Header["kid"] = "k2"
	unknown, err := token.SignedString([]byte(secret))
	require.NoError(t, err)
	for name, c := range map[string]JWTConfig{
		"file": {Algorithm: "HS256", KeyFile: file(t, keySet("k1", secret))},
		"url":  {Algorithm: "HS256", JWKSURL: server.URL},
	} {
		j, err := NewJWT(t.Context(), c)
		require.NoError(t, err, name)
		_, err = try(t, j, signed)
		require.NoError(t, err, name)
		_, err = try(t, j, unknown)
		require.ErrorIs(t, err, ErrBadToken, name)
	}
}

func TestJWTConfig(t *testing.T) {
	for name, c := range map[string]JWTConfig{
		"algorithm": {Algorithm: "none", KeyFile: file(t, secret)},
		"either":    {Algorithm: "HS256"},
		"32":        {Algorithm: "HS256", KeyFile: file(t, "short")},
		"no such":   {Algorithm: "HS256", KeyFile: "/nowhere/key"},
		"PEM":       {Algorithm: "RS256", KeyFile: file(t, secret)},
		"JWKS URL":  {Algorithm: "RS256", JWKSURL: "::"},
		"JWK Set":   {Algorithm: "RS256", KeyFile: file(t, `{"keys": 3}`)},
	} {
		_, err := NewJWT(t.Context(), c)
		require.ErrorContains(t, err, name)
	}
}

func TestInsecure(t *testing.T) {
	id, err := try(t, Insecure{}, "alice")
	require.NoError(t, err)
	require.Equal(t, Identity{UID: "alice", Device: "mine", Flag: "web", Level: schema.Master, WatchAny: true}, id)
	_, err = try(t, Insecure{}, "")
	require.ErrorIs(t, err, ErrBadToken)
}

// What is wrong goes into a close reason or a frame's message: one line, however much is wrong.
func TestOneFaultIsTold(t *testing.T) {
	id := Identity{UID: "", Device: "\x00", Flag: "NO", TokenID: strings.Repeat("x", schema.MaxTokenID+1)}
	require.ErrorContains(t, id.check(), "uid")
	require.NotContains(t, id.check().Error(), "\n")
	_, err := credentials(&session{}, schema.ClientFrame{Device: "\x00", Flag: "NO", Level: "king"})
	require.ErrorContains(t, err, "king")
	require.NotContains(t, err.Error(), "\n")
}

type anywhere struct {
	net.Listener
	ip net.IP
}

func (a anywhere) Addr() net.Addr { return &net.TCPAddr{IP: a.ip, Port: 80} }

func TestOpenToOthers(t *testing.T) {
	require.False(t, openToOthers(&net.UnixAddr{Name: "/run/x"}))
	require.True(t, openToOthers(&net.IPAddr{}), "what is not known may be")
}

func TestConfig(t *testing.T) {
	open := func(ip net.IP) []Listener { return []Listener{{"ws", anywhere{ip: ip}}} }
	local := open(net.IPv6loopback)
	good := Config{Node: "gw-1", Auth: Insecure{}, Listeners: local}
	require.NoError(t, good.validate())
	for _, ip := range []net.IP{net.IPv4zero, net.IPv4(10, 0, 0, 1), net.IPv6zero} {
		c := good
		c.Listeners = open(ip)
		require.ErrorIs(t, c.validate(), ErrInsecure, ip.String())
		c.Auth = &Insecure{}
		require.ErrorIs(t, c.validate(), ErrInsecure)
		c.Auth = hs256(t, JWTConfig{})
		require.NoError(t, c.validate())
	}
	for want, change := range map[string]func(*Config){
		"node":           func(c *Config) { c.Node = "gw.1" },
		"prefix":         func(c *Config) { c.Prefix = "a..b" },
		"Auth":           func(c *Config) { c.Auth = nil },
		"Listeners: at":  func(c *Config) { c.Listeners = nil },
		"two are called": func(c *Config) { c.Listeners = append(local, local...) },
		"listener":       func(c *Config) { c.Listeners = []Listener{{"W S", anywhere{}}} },
		"config Drain":   func(c *Config) { c.Drain.Rate = -1 },
		"Limits.Burst":   func(c *Config) { c.Limits.Burst = -1 },
	} {
		c := good
		change(&c)
		require.ErrorContains(t, c.validate(), want)
	}
}
