package deploy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/cmd/app"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/subjects"
)

const none = subjects.Prefix("")

func withJetStream(t *testing.T, c *conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(c.Conn)
	require.NoError(t, err)
	return js
}

// makeBucket does as the first authority does.
func makeBucket(t *testing.T, authority *conn) {
	t.Helper()
	_, err := withJetStream(t, authority).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: none.BucketStream(), Subjects: []string{none.BucketSubjects()}, MaxMsgsPerSubject: 1,
		Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, FirstSeq: 1000,
		RePublish: &jetstream.RePublish{Source: none.BucketSubjects(), Destination: none.Changed()},
	})
	require.NoError(t, err)
}

func next(t *testing.T, sub *nats.Subscription) *nats.Msg {
	t.Helper()
	m, err := sub.NextMsg(5 * time.Second)
	require.NoError(t, err)
	return m
}

func TestBucketThroughPermissions(t *testing.T) {
	n := start(t)
	authority, gateway := connect(t, n, deploy.Authority), connect(t, n, deploy.Gateway)
	makeBucket(t, authority)
	notices, err := gateway.SubscribeSync(none.Changed())
	require.NoError(t, err)
	require.NoError(t, gateway.Flush())

	ours, err := withJetStream(t, authority).KeyValue(t.Context(), none.Bucket())
	require.NoError(t, err)
	_, err = ours.Create(t.Context(), subjects.SlotKey(17), []byte(`{"node":"a-1"}`))
	require.NoError(t, err)
	key, ok := none.ParseChanged(next(t, notices).Subject)
	require.True(t, ok)
	require.Equal(t, subjects.SlotKey(17), key)

	theirs, err := withJetStream(t, gateway).KeyValue(t.Context(), none.Bucket())
	require.NoError(t, err)
	_, err = theirs.Create(t.Context(), subjects.GatewayKey("gw-1"), []byte(`{}`))
	require.NoError(t, err)
	entry, err := theirs.Get(t.Context(), subjects.SlotKey(17))
	require.NoError(t, err)
	require.EqualValues(t, 1000, entry.Revision())
	all, err := theirs.WatchAll(t.Context())
	require.NoError(t, err)
	require.Equal(t, subjects.SlotKey(17), (<-all.Updates()).Key())
	require.NoError(t, all.Stop())
	require.Empty(t, gateway.refusals(t))
	require.Empty(t, authority.refusals(t))
}

func TestAGatewayAnswersTwiceAndNoOftener(t *testing.T) {
	n := start(t)
	delivery, gateway := connect(t, n, deploy.Delivery), connect(t, n, deploy.Gateway)
	_, err := gateway.Subscribe("push.gw-1.boot", func(m *nats.Msg) {
		for _, answer := range []string{"written", "acked", "once more"} {
			_ = m.Respond([]byte(answer))
		}
	})
	require.NoError(t, err)
	require.NoError(t, gateway.Flush())
	inbox := delivery.NewInbox()
	answers, err := delivery.SubscribeSync(inbox)
	require.NoError(t, err)
	require.NoError(t, delivery.PublishRequest("push.gw-1.boot", inbox, nil))
	require.Equal(t, "written", string(next(t, answers).Data))
	require.Equal(t, "acked", string(next(t, answers).Data))
	require.Contains(t, <-gateway.refused, inbox)
}

func TestServiceThroughPermissions(t *testing.T) {
	n := start(t)
	delivery, backend := connect(t, n, deploy.Delivery), connect(t, n, deploy.Backend)
	service, err := micro.AddService(delivery.Conn, micro.Config{Name: none.Service(), Version: "1.0.0"})
	require.NoError(t, err)
	defer func() { require.NoError(t, service.Stop()) }()
	require.NoError(t, service.AddGroup(none.Service()).AddEndpoint("lookup",
		micro.HandlerFunc(func(r micro.Request) { _ = r.Respond([]byte("here")) })))
	require.NoError(t, delivery.Flush())
	answer, err := backend.RequestWithContext(t.Context(), none.ServiceCall("lookup"), nil)
	require.NoError(t, err)
	require.Equal(t, "here", string(answer.Data))

	operator := connect(t, n, deploy.Operator)
	pong, err := operator.RequestWithContext(t.Context(), "$SRV.PING", nil)
	require.NoError(t, err)
	require.Contains(t, string(pong.Data), none.Service())
	require.Empty(t, delivery.refusals(t))
}

func TestBackendAnswersWhatClientsSend(t *testing.T) {
	n := start(t)
	gateway, backend := connect(t, n, deploy.Gateway), connect(t, n, deploy.Backend)
	_, err := backend.QueueSubscribe(none.AllUp(), "chat", func(m *nats.Msg) { _ = m.Respond([]byte("yes")) })
	require.NoError(t, err)
	require.NoError(t, backend.Flush())
	answer, err := gateway.RequestWithContext(t.Context(), none.Up("alice"), nil)
	require.NoError(t, err)
	require.Equal(t, "yes", string(answer.Data))
}

func TestDisconnectsAreTold(t *testing.T) {
	n := start(t)
	for _, u := range []deploy.User{deploy.Gateway, deploy.Authority, deploy.Delivery} {
		t.Run(string(u), func(t *testing.T) {
			survivor := connect(t, n, u)
			told, err := survivor.SubscribeSync(none.SysDisconnect())
			require.NoError(t, err)
			require.NoError(t, survivor.Flush())
			dying, err := nats.Connect("", append(n.Options(deploy.Authority), nats.Name("authority/a-1/boot/1"))...)
			require.NoError(t, err)
			dying.Close()
			require.Equal(t, deploy.Account, accountOf(t, told, "authority/a-1/boot/1"))
		})
	}
}

// accountOf waits for the disconnect event of a connection, and gives the account that it was of.
func accountOf(t *testing.T, told *nats.Subscription, connection string) string {
	t.Helper()
	for {
		var event struct {
			Client struct {
				Name    string `json:"name"`
				Account string `json:"acc"`
			} `json:"client"`
		}
		require.NoError(t, json.Unmarshal(next(t, told).Data, &event))
		if event.Client.Name == connection { // the others are those of the tests before
			return event.Client.Account
		}
	}
}

func TestNobodyGetsInWithoutAPassword(t *testing.T) {
	n, err := app.StartNATS(app.NATSConfig{Store: t.TempDir(), Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(n.Stop)
	_, err = nats.Connect(n.URL())
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = nats.Connect(n.URL(), nats.UserInfo(string(deploy.Gateway), n.Password(deploy.Authority)))
	require.ErrorIs(t, err, nats.ErrAuthorization)
}

func TestOpenOperatorIsTheOperator(t *testing.T) {
	n, err := app.StartNATS(app.NATSConfig{Store: t.TempDir(), Listen: "127.0.0.1:0", OpenOperator: true})
	require.NoError(t, err)
	t.Cleanup(n.Stop)
	nc, err := nats.Connect(n.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	who, err := nc.RequestWithContext(t.Context(), "$SYS.REQ.USER.INFO", nil)
	require.NoError(t, err)
	require.Contains(t, string(who.Data), string(deploy.Operator))
}
