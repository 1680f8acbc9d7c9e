package app

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestDecode(t *testing.T) {
	m := &schema.Lookup{Groups: nil}
	bytes, err := schema.Marshal(m)
	require.NoError(t, err)
	r := run(t, string(bytes), "decode")
	require.Equal(t, ExitOK, r.code, r.err)
	require.JSONEq(t, `{"kind":"lookup"}`, r.out)
}

func TestDecodePassesJSONAndNothing(t *testing.T) {
	for in, out := range map[string]string{
		` {"b":1, "a":2}` + "\n": `{"b":1, "a":2}` + "\n",
		"17":                     "17\n",
		"":                       "\n",
	} {
		r := run(t, in, "decode")
		require.Equal(t, ExitOK, r.code, r.err)
		require.Equal(t, out, r.out)
	}
}

func TestDecodeRefusesOthers(t *testing.T) {
	for _, in := range []string{"hello", "\x00", "\x95\xff\xff\xff", "\xdd\xff\xff\xff\xff"} {
		require.Contains(t, run(t, in, "decode").failed(t, ExitFailed), "neither JSON nor a message")
	}
}

func TestTokenIsOneThatTheGatewayTakes(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	file := write(t, "secret", secret+"\n")
	args := []string{"token", "alice", "--device", "d", "--flag", "web", "--level", "master", "--gen", "3", "--token-id", "t1",
		"--jwt-audience", "chat", "--jwt-issuer", "login", "--watch", "bob,carol", "--expires", "1m"}
	t.Setenv("ROLLCALL_JWT_SECRET", secret)
	r := run(t, "", args...)
	require.Equal(t, ExitOK, r.code, r.err)
	auth, err := gateway.NewJWT(t.Context(), gateway.JWTConfig{Algorithm: "HS256", KeyFile: file, Audience: "chat", Issuer: "login"})
	require.NoError(t, err)
	id, err := auth.Authenticate(t.Context(), gateway.Credentials{Token: r.out[:len(r.out)-1], Device: "x", Flag: "app"})
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Minute), id.Expires, 5*time.Second)
	id.Expires = time.Time{}
	require.Equal(t, gateway.Identity{
		UID: "alice", Device: "d", Flag: "web", Level: schema.Master, Gen: 3, TokenID: "t1", Watch: []schema.UID{"bob", "carol"},
	}, id)
}

func TestTokenNeedsOneSecret(t *testing.T) {
	require.Contains(t, run(t, "", "token", "alice").failed(t, ExitUsage), "--jwt-key")
}

func TestVersion(t *testing.T) {
	r := run(t, "", "version")
	require.Equal(t, ExitOK, r.code)
	require.Contains(t, r.out, "256 slots")
	require.Equal(t, "1.2.3", semver("v1.2.3"))
	require.Empty(t, semver("v0.0.0-20260101000000-abcdefabcdef"))
	require.Empty(t, semver("devel"))
}

func TestTypedLines(t *testing.T) {
	for line, want := range map[string]string{
		"@bob hello there": `{"to":"bob","text":"hello there"}`,
		"hello":            `{"text":"hello"}`,
		`{"x":[1]}`:        `{"x":[1]}`,
		`@"`:               `{"to":"\"","text":""}`,
	} {
		require.JSONEq(t, want, string(typed(line)))
	}
	require.Equal(t, "hi", text(json.RawMessage(`{"from":"a","text":"hi"}`)))
	require.Equal(t, "hi", text(json.RawMessage(`"hi"`)))
	require.Equal(t, `[1]`, text(json.RawMessage(`[1]`)))
}

func TestRanges(t *testing.T) {
	require.Equal(t, "0-2 5 7-8", ranges([]schema.Slot{0, 1, 2, 5, 7, 8}))
	require.Empty(t, ranges(nil))
}

func TestNothingFromOutsideSteersTheTerminal(t *testing.T) {
	require.Equal(t, `"a\x1b[2Jb"`, printable("a\x1b[2Jb"))
	require.Equal(t, "zoë 🎈", printable("zoë 🎈"))
	require.Equal(t, "-", printable(""))
}

func TestProgressOfACall(t *testing.T) {
	for _, c := range []struct{ next, asked, want int }{{0, 5, 5}, {3, 5, 3}} {
		n, err := progress(c.next, c.asked)
		require.NoError(t, err)
		require.Equal(t, c.want, n)
	}
	_, err := progress(6, 5)
	require.Error(t, err)
}

func TestWhoIsNotWatchedIsTold(t *testing.T) {
	var people, programs strings.Builder
	why := errors.New("not_allowed: not yours")
	(&terminal{command: &ConnectCmd{}, out: &people}).refused([]schema.UID{"bob", "eve"}, why)
	(&terminal{command: &ConnectCmd{Output: Output{JSON: true}}, out: &programs}).refused([]schema.UID{"bob"}, why)
	require.Contains(t, people.String(), "eve is not watched: not_allowed: not yours\n")
	require.JSONEq(t, `{"state":"not watched","uid":"bob","error":"not_allowed: not yours"}`, programs.String())
}
