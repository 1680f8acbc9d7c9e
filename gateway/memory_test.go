package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// TestIdleSessions holds many sessions over real sockets that do nothing: two goroutines each, and
// little memory.
func TestIdleSessions(t *testing.T) {
	const sessions = 1000
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := Config{Node: "gw-1", Listeners: []Listener{{"ws", ln}}, Auth: Insecure{}}.withDefaults()
	view, mesh, bus, holder := newFakeView(), newFakeMesh(), new(fakeBus), newFakeHolder()
	mesh.view = view
	g := newGateway(bus, bus, view, c)
	g.mesh, g.holder, g.changes = mesh, holder, view.subscribe
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	open := make([]net.Conn, 0, sessions)
	defer func() {
		for _, one := range open {
			one.Close()
		}
		cancel()
		require.NoError(t, <-done)
	}()
	open = append(open, login(t, ln.Addr().String(), "warm"))

	before, goroutines := used(), runtime.NumGoroutine()
	for i := range sessions {
		open = append(open, login(t, ln.Addr().String(), fmt.Sprint("user", i)))
	}
	each := (used() - before) / sessions
	t.Logf("%d bytes and %.2f goroutines a session", each, float64(runtime.NumGoroutine()-goroutines)/sessions)
	require.Less(t, each, uint64(24<<10))
	require.Less(t, runtime.NumGoroutine()-goroutines, 2*sessions+100)
}

// login opens a connection and says hello, and returns when it is connected.
func login(t *testing.T, addr, uid string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n%s", Path, addr, raw(true, 1, []byte(`{"type":"hello","token":"`+uid+`","device":"d1"}`)))
	require.NoError(t, err)
	r := bufio.NewReaderSize(c, 512)
	res, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	head := make([]byte, 4) // a text frame of 126 to 65535 bytes
	_, err = io.ReadFull(r, head)
	require.NoError(t, err)
	body := make([]byte, int(head[2])<<8|int(head[3]))
	_, err = io.ReadFull(r, body)
	require.NoError(t, err)
	f, err := schema.JSON.DecodeServer(body)
	require.NoError(t, err)
	require.Equal(t, schema.TypeConnected, f.Type)
	return c
}

// used is the memory in use after garbage collection, in bytes, stacks included.
func used() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
