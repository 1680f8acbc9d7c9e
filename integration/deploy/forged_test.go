package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/cmd/app"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// forgedFence is one that this bucket does not come to, and another might have.
var forgedFence = schema.Revision(time.Now().AddDate(5, 0, 0).UnixMilli())

// TestNobodySpeaksForTheServer: permissions bound neither the headers of a write nor where a consumer
// delivers to. So a gateway, which may write its key and read the bucket, can give its key a revision
// beside the server's, and have it delivered as if the server had said that a slot has another owner, or
// that an authority has lost its connection. Nobody believes it.
func TestNobodySpeaksForTheServer(t *testing.T) {
	n := start(t)
	first, view, bucket := startWorker(t, n, "a-1")
	startWorker(t, n, "a-2")
	gateway, ear := connect(t, n, deploy.Gateway), connect(t, n, deploy.Operator)
	process.Eventually(t, 20*time.Second, "both live", func() bool { return first.Ready() && len(view.Members(lease.Authority)) == 2 })
	me := first.Me()

	owner, err := json.Marshal(schema.SlotValue{Node: "a-9", Boot: schema.NewBoot()})
	require.NoError(t, err)
	forge(t, gateway, ear, "presence.changed."+subjects.SlotKey(17), owner)
	_, err = bucket.Configure(t.Context(), func(c *schema.Config) error { c.MaxSessions = 7; return nil })
	require.NoError(t, err)
	process.Eventually(t, 20*time.Second, "a notice that came later is heeded", func() bool { return view.Config().MaxSessions == 7 })
	require.Less(t, view.Highest(17), forgedFence)
	gateways := view.Members(lease.Gateway)
	require.Len(t, gateways, 1)
	require.Less(t, gateways[0].Revision, forgedFence)

	was := member(t, view, me)
	server, client, _ := strings.Cut(was.Value.Conn, "/")
	number, err := strconv.Atoi(client)
	require.NoError(t, err)
	forge(t, gateway, ear, none.SysDisconnect(), fmt.Appendf(nil, `{"server":{"id":%q},"client":{"id":%d,"name":"authority/a-1"}}`, server, number))
	for range 3 { // a renewal is 0.3 s, and who believed it would have written after 0.1
		was = member(t, view, me)
		process.Eventually(t, 20*time.Second, "it renews its key", func() bool { return member(t, view, me).Revision > was.Revision })
	}
	require.Equal(t, me, first.Me(), "it has lost its lease")
}

// startWorker runs an authority as a user of the server, with leases of 3 s.
func startWorker(t *testing.T, n *app.NATS, node schema.NodeID) (*authority.Worker, *lease.View, *lease.Bucket) {
	t.Helper()
	nc := connect(t, n, deploy.Authority)
	config := schema.DefaultConfig()
	config.LeaseMS = 3000
	b, err := lease.Open(t.Context(), nc.Conn, lease.Options{Create: true, Defaults: config})
	require.NoError(t, err)
	v := lease.NewView(b, nil)
	w, err := authority.New(nc.Conn, b, v, authority.Config{Node: node, Fresh: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = v.Run(ctx) }) // ends with ctx
	<-v.Ready()
	running.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w, v, b
}

func member(t *testing.T, v *lease.View, p schema.Process) lease.Member {
	t.Helper()
	for _, m := range v.Members(lease.Authority) {
		if m.Process == p {
			return m
		}
	}
	require.FailNow(t, p.String()+" is not there")
	return lease.Member{}
}

// forge has a gateway's own key delivered to a subject, and waits until somebody there has heard it.
func forge(t *testing.T, gateway, ear *conn, to string, body []byte) {
	t.Helper()
	heard, err := ear.SubscribeSync(to)
	require.NoError(t, err)
	require.NoError(t, ear.Flush())
	key := none.BucketKey(subjects.GatewayKey("gw-1"))
	m := &nats.Msg{Subject: key, Data: body, Header: nats.Header{"Nats-Sequence": {strconv.FormatUint(uint64(forgedFence), 10)}}}
	_, err = gateway.RequestMsgWithContext(t.Context(), m)
	require.NoError(t, err)
	consumer, err := json.Marshal(map[string]any{"stream_name": none.BucketStream(), "config": map[string]any{
		"name": "x1", "deliver_subject": to, "filter_subject": key, "ack_policy": "none", "inactive_threshold": time.Minute,
	}})
	require.NoError(t, err)
	made, err := gateway.RequestWithContext(t.Context(), "$JS.API.CONSUMER.CREATE."+none.BucketStream()+".x1."+key, consumer)
	require.NoError(t, err)
	require.NotContains(t, string(made.Data), `"error"`)
	for string(next(t, heard).Data) != string(body) {
	}
	_, err = gateway.RequestWithContext(t.Context(), "$JS.API.CONSUMER.DELETE."+none.BucketStream()+".x1", nil)
	require.NoError(t, err)
	require.NoError(t, heard.Unsubscribe())
}
