package js_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/gateway/client/js"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node gives the path of Node, or skips: unless ROLLCALL_REQUIRE names it, as CI does.
func node(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err == nil {
		return path
	}
	if strings.Contains(os.Getenv("ROLLCALL_REQUIRE"), "node") {
		require.FailNow(t, "node is required by ROLLCALL_REQUIRE, and is not installed")
	}
	t.Skip("node is not installed")
	return ""
}

// run gives what a script prints that may import ./rollcall.js.
func run(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), node(t), "--experimental-websocket", "--no-warnings", "--input-type=module", "-")
	cmd.Stdin = strings.NewReader(script)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return string(out)
}

func TestModule(t *testing.T) {
	path := node(t)
	_, err := os.ReadFile("rollcall.test.js") // so that go test's cache knows of it
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), path, "--test").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The two clients act on the same table.
func TestCloseCodesAreTheSchemas(t *testing.T) {
	type entry struct{ Meaning, Action string }
	want := map[string]entry{}
	for _, c := range schema.CloseCodes() {
		want[fmt.Sprint(uint16(c))] = entry{c.Meaning(), c.Action().String()}
	}
	var got map[string]entry
	out := run(t, `import { CLOSE_CODES } from "./rollcall.js"; console.log(JSON.stringify(CLOSE_CODES));`)
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, want, got)
}

// The module against a real WebSocket, with Node's own implementation.
func TestRealSocket(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: schema.Subprotocols()})
		if err != nil {
			return
		}
		defer ws.CloseNow()
		serve(r.Context(), t, ws)
	}))
	t.Cleanup(server.Close)
	out := run(t, `
		import { Client } from "./rollcall.js";
		const print = (...what) => console.log(JSON.stringify(what));
		const client = new Client({
			url: "`+strings.Replace(server.URL, "http", "ws", 1)+`", token: "alice", device: "d",
			onMessage: (m) => { print(m.from, m.payload); client.send({ to: "bob" }).then((r) => print("reply", r)); },
			onState: (s) => { if (s.phase === "stopped") print(s.code, s.reason, s.action); },
		});
		client.start();`)
	require.Equal(t, `["bob","hé"]
["reply",["done"]]
[3503,"same device","stop"]
`, out)
}

// serve plays one session: a message, its ack, a send, and the end.
func serve(ctx context.Context, t *testing.T, ws *websocket.Conn) {
	next := func(want schema.FrameType) schema.ClientFrame {
		_, b, err := ws.Read(ctx)
		if err != nil {
			return schema.ClientFrame{}
		}
		f, err := schema.JSON.DecodeClient(b)
		if err != nil || f.Type != want {
			t.Errorf("got %s, %v; want %s", b, err, want)
		}
		return f
	}
	send := func(f schema.ServerFrame) {
		b, err := schema.JSON.Encode(f)
		if err == nil {
			err = ws.Write(ctx, websocket.MessageText, b)
		}
		if err != nil {
			t.Errorf("send: %v", err)
		}
	}
	next(schema.TypeHello)
	send(schema.ServerFrame{Type: schema.TypeConnected, Session: "s1", UID: "alice"})
	send(schema.ServerFrame{Type: schema.TypeRecv, ID: "m1", From: "bob", Payload: json.RawMessage(`"hé"`), Ack: 1})
	// The message's callback sends before its ack goes out.
	asked := next(schema.TypeSend)
	next(schema.TypeAck)
	send(schema.ServerFrame{Type: schema.TypeSent, ID: asked.ID, Reply: json.RawMessage(`["done"]`)})
	ws.Close(websocket.StatusCode(schema.CloseReplaced), "same device")
}

func TestModuleIsACopy(t *testing.T) {
	require.Contains(t, string(js.Module()), "export class Client")
	js.Module()[0] = 'x'
	require.NotEqual(t, byte('x'), js.Module()[0])
}
