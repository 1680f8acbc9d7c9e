package delivery_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestSingleLookupsGoTogetherOverTheServer(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		for i := range 20 {
			g.login(t, schema.UID(fmt.Sprint("u", i)), "phone", "app")
		}
		spy, _ := m.server.Dial("spy")
		asked := make(chan struct{}, 1000)
		_, err := spy.Subscribe("authority.*.*.lookup", func(*nats.Msg) { asked <- struct{}{} })
		require.NoError(t, err)
		require.NoError(t, spy.Flush())
		m.link.Delay("authority.>", 1, 100*time.Millisecond)
		var wg sync.WaitGroup
		for i := range 512 {
			wg.Go(func() {
				uid := schema.UID(fmt.Sprint("u", i%20))
				found, err := m.Lookup(t.Context(), []schema.UID{uid})
				require.NoError(t, err)
				require.Equal(t, uid, found[0].UID)
				require.Len(t, found[0].Routes, 1)
			})
		}
		wg.Wait()
		time.Sleep(time.Second) // the spy hears by itself
		require.Len(t, asked, 2)
	})
}

func TestLostLookups(t *testing.T) {
	for name, lose := range map[string]func(l *bubble.Link){
		"before": func(l *bubble.Link) { l.Lose("authority.*.*.lookup", 1) },
		"after":  func(l *bubble.Link) { l.LoseAnswer("authority.*.*.lookup", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m *mesh) {
				lose(m.link)
				begun := time.Now()
				require.Equal(t, schema.Unknown, state(t, m, "alice"))
				require.Equal(t, 500*time.Millisecond, time.Since(begun))
				require.Equal(t, schema.Offline, state(t, m, "alice"))
			})
		})
	}
}

// A push whose answer is lost is unknown; it is not sent again, since it may have been written.
func TestLostPushes(t *testing.T) {
	for name, tc := range map[string]struct {
		fault func(l *bubble.Link, subject string)
		want  string
		sent  int
	}{
		"before":     {func(l *bubble.Link, s string) { l.Lose(s, 1) }, "alice online false gw-1:unknown", 0},
		"after":      {func(l *bubble.Link, s string) { l.LoseAnswer(s, 1) }, "alice online false gw-1:unknown", 1},
		"duplicated": {func(l *bubble.Link, s string) { l.Duplicate(s, 1) }, "alice online true gw-1:written", 2},
		"delayed":    {func(l *bubble.Link, s string) { l.Delay(s, 1, time.Second) }, "alice online true gw-1:written", 1},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m *mesh) {
				g := m.gateway("gw-1")
				g.login(t, "alice", "phone", "app")
				tc.fault(m.link, subjects.Prefix("").Push(g.me))
				p, err := m.Push(t.Context(), message("m1"), []schema.UID{"alice"})
				require.NoError(t, err)
				require.Equal(t, []string{tc.want}, results(p))
				time.Sleep(time.Second)
				require.Len(t, g.pushed(), tc.sent)
				require.Equal(t, schema.Online, state(t, m, "alice"), "never removed for it")
			})
		})
	}
}

// An authority is lost: its slots are unknown, never offline, until another has them.
func TestLookupsFollowASlot(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		nc, _ := m.server.Dial("authority/a-2")
		b, view := open(t, nc)
		w, err := authority.New(nc, b, view, authority.Config{Node: "a-2", Fresh: true})
		require.NoError(t, err)
		bubble.Go(t, w.Run)
		time.Sleep(time.Second)
		var uids []schema.UID
		for i := range 300 {
			uids = append(uids, schema.UID(fmt.Sprint("u", i)))
		}
		before, err := m.Lookup(t.Context(), uids[:1])
		require.NoError(t, err)
		old := before[0].Target.Authority
		m.worker.Cut()
		bubble.Until(t, time.Minute, "all found out about", func() bool {
			found, err := m.Lookup(t.Context(), uids)
			require.NoError(t, err)
			known := 0
			for i, f := range found {
				require.Equal(t, uids[i], f.UID)
				if f.State != schema.Unknown {
					require.Equal(t, w.Me(), f.Target.Authority, "the old one cannot be reached")
					known++
				}
			}
			time.Sleep(100 * time.Millisecond)
			return known == len(uids)
		})
		m.worker.Heal()
		time.Sleep(5 * time.Second)
		found, err := m.Lookup(t.Context(), uids)
		require.NoError(t, err)
		for _, f := range found {
			require.NotEqual(t, old, f.Target.Authority, "that life is over")
		}
	})
}

func TestWithoutAServer(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		target, err := g.client.Target(t.Context(), 7)
		require.NoError(t, err)
		m.server.Stop()
		time.Sleep(time.Second)
		begun := time.Now()
		_, err = g.client.Touch(t.Context(), target, g.me, []schema.Touched{{Session: 1}})
		require.ErrorIs(t, err, client.ErrDisconnected)
		_, err = g.client.Kick(t.Context(), schema.Process{Node: "gw-2", Boot: schema.NewBoot()}, nil)
		require.ErrorIs(t, err, client.ErrDisconnected, "which proves nothing")
		require.Equal(t, schema.Unknown, state(t, m, "alice"))
		require.Equal(t, begun, time.Now(), "nobody waits for what cannot be sent")
		m.server.Start()
		bubble.Until(t, 20*time.Second, "it works again", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			found, err := m.Lookup(ctx, []schema.UID{"alice"})
			return err == nil && found[0].State == schema.Offline
		})
	})
}

func TestForeignMesh(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		nc, _ := s.Dial("other")
		open(t, nc)
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		_, err = js.Publish(t.Context(), subjects.Prefix("").BucketKey(subjects.ConfigKey), []byte(`{"slots":512,"format":1}`))
		require.NoError(t, err)
		d := newDelivery(t, nc)
		_, err = d.Lookup(t.Context(), []schema.UID{"alice"})
		require.ErrorIs(t, err, schema.ErrConfig)
		require.ErrorContains(t, err, "512")
		_, err = d.Stats(t.Context())
		require.ErrorIs(t, err, schema.ErrConfig)
	})
	_, err := delivery.New(nil)
	require.Error(t, err)
	_, err = delivery.New(new(nats.Conn), delivery.WithPrefix("a b"))
	require.Error(t, err)
}
