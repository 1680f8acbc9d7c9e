package deploy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/cmd/app"
	"github.com/rollcall-mesh/rollcall/deploy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// role is what one user may and may not do, in subjects as they stand on the wire.
type role struct {
	user                 deploy.User
	publishes, mayNot    []string
	subscribes, mustHear []string // mustHear: what it may not listen to
}

var readsBucket = []string{
	"$JS.API.STREAM.INFO.KV_presence", "$JS.API.STREAM.MSG.GET.KV_presence",
	"$JS.API.CONSUMER.CREATE.KV_presence.x1.$KV.presence.>", "$JS.API.CONSUMER.DELETE.KV_presence.x1",
	"$JS.FC.KV_presence.x1.1",
}

// nobodys are the subjects on which no role of the mesh has any business.
var nobodys = []string{
	"presence.changed.slot.17", "presence.changed.config", "$JS.API.STREAM.DELETE.KV_presence",
	"$JS.API.STREAM.UPDATE.KV_presence", "$JS.API.STREAM.CREATE.other", "$SYS.REQ.SERVER.PING", "sys.disconnect",
}

var roles = []role{
	{
		user: deploy.Gateway,
		publishes: append([]string{
			"$KV.presence.gateway.gw-1", "slot.17.42.register", "kick.gw-2.boot", "up.17.alice",
			"authority.a-1.boot.lookup", "auth.connect", "auth.watch",
		}, readsBucket...),
		mayNot: append([]string{
			"$KV.presence.slot.17", "$KV.presence.config", "$KV.presence.authority.a-1", "event.17.alice",
			"push.gw-2.boot", "presence.lookup", "revoke", "fallback.f", "authority.a-1.boot.drain", "gateway.gw-2.boot.drain", "_INBOX_authority.x", "$JS.API.STREAM.PURGE.KV_presence",
		}, nobodys...),
		subscribes: []string{
			"_INBOX_gateway.>", "presence.changed.>", "sys.disconnect", "push.gw-1.boot", "kick.gw-1.boot",
			"gateway.gw-1.boot.sessions", "revoke", "event.17.alice",
		},
		mustHear: []string{">", "_INBOX.>", "_INBOX_backend.>", "slot.17.42.*", "up.>", "presence.lookup", "authority.a-1.boot.*"},
	},
	{
		user: deploy.Authority,
		publishes: append([]string{
			"$KV.presence.slot.17", "$KV.presence.config", "$KV.presence.authority.a-1", "$KV.presence.gateway.gw-1",
			"authority.a-2.boot.lookup", "event.17.alice", "event.17", "$KV.last_seen.alice",
			"$JS.API.INFO", "$JS.API.STREAM.CREATE.KV_presence", "$JS.API.STREAM.PURGE.KV_presence",
		}, readsBucket...),
		mayNot: append([]string{
			"slot.17.42.register", "push.gw-1.boot", "kick.gw-1.boot", "up.17.alice", "presence.lookup", "revoke", "_INBOX_gateway.x", "authority.a-2.boot.drain", "gateway.gw-1.boot.drain",
		}, nobodys...),
		subscribes: []string{"_INBOX_authority.>", "presence.changed.>", "sys.disconnect", "slot.17.42.*", "authority.a-1.boot.*"},
		mustHear:   []string{">", "_INBOX_gateway.>", "push.gw-1.boot", "up.>", "presence.lookup", "event.>"},
	},
	{
		user: deploy.Delivery,
		publishes: append([]string{
			"authority.a-1.boot.lookup", "push.gw-1.boot", "kick.gw-1.boot", "slot.17.42.remove",
			"gateway.gw-1.boot.sessions", "revoke", "fallback.mail", "$JS.API.DIRECT.GET.KV_last_seen.$KV.last_seen.=YUBi",
		}, readsBucket...),
		mayNot: append([]string{
			"$KV.presence.gateway.gw-1", "$KV.presence.slot.17", "slot.17.42.register", "slot.17.42.unregister", "$KV.last_seen.alice",
			"event.17.alice", "up.17.alice", "_INBOX_gateway.x", "authority.a-1.boot.drain", "gateway.gw-1.boot.drain",
		}, nobodys...),
		subscribes: []string{
			"_INBOX_delivery.>", "presence.changed.>", "sys.disconnect", "presence.lookup", "presence.push", "presence.kick",
			"presence.sessions", "presence.explain", "presence.slots", "presence.stats", "$SRV.PING", "$SRV.INFO.presence", "event.>",
		},
		mustHear: []string{">", "_INBOX_backend.>", "push.>", "kick.>", "slot.>", "up.>"},
	},
	{
		user: deploy.Backend,
		publishes: []string{
			"presence.lookup", "presence.push", "presence.kick", "presence.sessions", "presence.explain", "presence.slots", "presence.stats",
			"$JS.API.STREAM.INFO.presence_events", "$JS.API.CONSUMER.CREATE.presence_events.mail", "$JS.API.CONSUMER.CREATE.presence_events.mail.event.>",
			"$JS.API.CONSUMER.MSG.NEXT.presence_events.mail", "$JS.ACK.presence_events.mail.1.2.3.4.5",
		},
		mayNot: append([]string{
			"$JS.API.STREAM.DELETE.presence_events", "$JS.API.STREAM.PURGE.presence_events", "$JS.API.STREAM.UPDATE.presence_events",
			"$JS.API.STREAM.MSG.DELETE.presence_events", "$JS.API.CONSUMER.CREATE.KV_presence.x1.$KV.presence.>", "$JS.API.CONSUMER.CREATE.KV_last_seen.x1",
			"$JS.API.DIRECT.GET.KV_last_seen.$KV.last_seen.alice", "$KV.last_seen.alice", "event.17",
			"$KV.presence.slot.17", "slot.17.42.remove", "push.gw-1.boot", "kick.gw-1.boot", "authority.a-1.boot.lookup", "authority.a-1.boot.drain", "gateway.gw-1.boot.drain",
			"event.17.alice", "up.17.alice", "revoke", "$JS.API.STREAM.INFO.KV_presence", "_INBOX_delivery.x",
		}, nobodys...),
		subscribes: []string{"_INBOX_backend.>", "event.>", "up.>", "auth.connect", "auth.watch", "fallback.>"},
		mustHear:   []string{">", "_INBOX_delivery.>", "presence.changed.>", "presence.push", "slot.>", "push.>"},
	},
	{
		user:       deploy.Operator,
		publishes:  []string{"presence.lookup", "$KV.presence.config", "kick.gw-1.boot", "gateway.gw-1.boot.drain", "authority.a-1.boot.drain", "$SRV.PING"},
		mayNot:     []string{"presence.changed.slot.17", "presence.changed.config"},
		subscribes: []string{">", "presence.changed.>"},
	},
}

func start(t *testing.T) *app.NATS {
	t.Helper()
	n, err := app.StartNATS(app.NATSConfig{Store: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(n.Stop)
	return n
}

// conn is a connection of one user, with what the server has refused it.
type conn struct {
	*nats.Conn
	refused chan string
}

func connect(t *testing.T, n *app.NATS, u deploy.User) *conn {
	t.Helper()
	c := &conn{refused: make(chan string, 64)}
	options := append(n.Options(u), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		c.refused <- err.Error()
	}))
	var err error
	c.Conn, err = nats.Connect("", options...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// refusals waits until the server has judged all that was sent, and gives what it refused. They are
// told in order, so the one of a subject that is forbidden to everybody comes last.
func (c *conn) refusals(t *testing.T) []string {
	t.Helper()
	const marker = "presence.changed.marker"
	require.NoError(t, c.Publish(marker, nil))
	var list []string
	for {
		select {
		case text := <-c.refused:
			if strings.Contains(text, marker) {
				return list
			}
			list = append(list, text)
		case <-time.After(5 * time.Second):
			require.FailNow(t, "the server did not refuse the marker", list)
		}
	}
}

func TestEachRoleMayDoWhatItNeedsAndNoMore(t *testing.T) {
	n := start(t)
	for _, r := range roles {
		t.Run(string(r.user), func(t *testing.T) {
			t.Run("needs", func(t *testing.T) {
				c := connect(t, n, r.user)
				for _, s := range r.publishes {
					require.NoError(t, c.Publish(s, nil))
				}
				for _, s := range r.subscribes {
					_, err := c.SubscribeSync(s)
					require.NoError(t, err)
				}
				require.Empty(t, c.refusals(t))
			})
			for _, s := range r.mayNot {
				t.Run("may not publish "+s, func(t *testing.T) {
					c := connect(t, n, r.user)
					require.NoError(t, c.Publish(s, nil))
					require.Len(t, c.refusals(t), 1)
				})
			}
			for _, s := range r.mustHear {
				t.Run("may not hear "+s, func(t *testing.T) {
					c := connect(t, n, r.user)
					_, err := c.SubscribeSync(s)
					require.NoError(t, err)
					require.Len(t, c.refusals(t), 1)
				})
			}
		})
	}
}
