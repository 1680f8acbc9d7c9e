package upstream_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// backendVariable has this program be a backend, and names it.
const backendVariable = "ROLLCALL_TEST_BACKEND"

func TestMain(m *testing.M) {
	if name := os.Getenv(backendVariable); name != "" {
		if err := runBackend(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	process.Main(m)
}

// order is the payload of a send: what the backend is to do with it.
type order struct {
	Do string        `json:"do"` // echo, refuse, text, huge, or never
	In time.Duration `json:"in"` // before it does it
}

// echoed is the answer to an echo.
type echoed struct {
	By      string    `json:"by"`
	Up      schema.Up `json:"up"`
	Subject string    `json:"subject"`
}

// runBackend answers what clients send, each beside the others, until it is killed.
func runBackend(name string) error {
	nc, err := nats.Connect(os.Getenv("ROLLCALL_NATS"), nats.UserInfo(os.Getenv("ROLLCALL_USER"), os.Getenv("ROLLCALL_PASSWORD")),
		nats.CustomInboxPrefix(subjects.Inbox(string(deploy.Backend))))
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	sub, err := nc.QueueSubscribe(subjects.Prefix("").AllUp(), "chat", func(m *nats.Msg) { serving.Go(func() { serve(name, m) }) })
	if err != nil {
		return err
	}
	if err := nc.Flush(); err != nil {
		return err
	}
	fmt.Println("backend", name, "serves")
	<-sub.StatusChanged(nats.SubscriptionClosed)
	serving.Wait()
	return nil
}

func serve(name string, m *nats.Msg) {
	var up schema.Up
	var o order
	if json.Unmarshal(m.Data, &up) != nil || json.Unmarshal(up.Payload, &o) != nil {
		return
	}
	fmt.Println("got", o.Do, o.In)
	<-time.After(o.In) // a backend that is slow
	var answer []byte
	switch o.Do {
	case "echo":
		answer, _ = json.Marshal(echoed{name, up, m.Subject}) // it always encodes
	case "refuse":
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {"409"}, micro.ErrorHeader: {"bob is busy"}}})
		return
	case "text":
		answer = []byte("ok")
	case "huge":
		answer = []byte(`"` + strings.Repeat("x", 600<<10) + `"`)
	default:
		return
	}
	_ = m.Respond(answer) // nobody waits for one that comes too late
}
