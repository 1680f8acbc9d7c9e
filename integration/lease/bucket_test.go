package lease

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func (n *node) js() jetstream.JetStream {
	n.t.Helper()
	js, err := jetstream.New(n.nc)
	require.NoError(n.t, err)
	return js
}

// drop deletes the bucket, as a lost disk does.
func (n *node) drop() {
	n.t.Helper()
	require.NoError(n.t, n.js().DeleteStream(n.t.Context(), prefix.BucketStream()))
}

func open(t *testing.T, s *bubble.Server, o lease.Options) (*lease.Bucket, error) {
	t.Helper()
	nc, _ := s.Dial("opener")
	o.Memory = true
	return lease.Open(t.Context(), nc, o)
}

func TestBucketIsMadeByHandAndBoundAsKV(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		kv, err := a.js().KeyValue(t.Context(), prefix.Bucket())
		require.NoError(t, err)
		e, err := kv.Get(t.Context(), subjects.ConfigKey)
		require.NoError(t, err)
		var c schema.Config
		require.NoError(t, json.Unmarshal(e.Value(), &c))
		require.Equal(t, schema.DefaultConfig(), c)
		require.GreaterOrEqual(t, e.Revision(), uint64(time.Now().Add(-time.Second).UnixMilli()))
		first := e.Revision()

		stream, err := a.js().Stream(t.Context(), prefix.BucketStream())
		require.NoError(t, err)
		info := stream.CachedInfo()
		require.False(t, info.Config.AllowDirect)
		require.Equal(t, first, info.State.FirstSeq, "config is the first key")
		require.Equal(t, prefix.Changed(), info.Config.RePublish.Destination)
		require.Equal(t, int64(1), info.Config.MaxMsgsPerSubject)
		require.True(t, info.Config.DenyDelete)
		require.True(t, info.Config.AllowRollup)
		require.Zero(t, info.Config.MaxAge, "no time-to-live of the server's ends a lease")
	})
}

func TestOthersWaitForTheBucket(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		log := &logged{}
		nc, _ := s.Dial("gateway/gw-1")
		opened := bubble.Go(t, func(ctx context.Context) error {
			_, err := lease.Open(ctx, nc, lease.Options{Log: log.logger()})
			return err
		})
		time.Sleep(10 * time.Minute)
		require.True(t, log.has("waiting for the bucket: an authority makes it"))
		select {
		case <-opened.Done():
			require.Fail(t, "opened what is not there")
		default:
		}
		join(t, s, lease.Authority, "a-1")
		start := time.Now()
		require.NoError(t, opened.Wait())
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
	})
}

func TestOpenEndsWithItsContext(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		nc, _ := s.Dial("gateway/gw-1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := lease.Open(ctx, nc, lease.Options{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestManyCreatorsAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		var opened []*bubble.Process
		for i := range 8 {
			nc, link := s.Dial("authority")
			link.Delay(">", 3, time.Duration(i)*7*time.Millisecond)
			opened = append(opened, bubble.Go(t, func(ctx context.Context) error {
				b, err := lease.Open(ctx, nc, lease.Options{Create: true, Memory: true})
				if err == nil {
					require.Equal(t, schema.DefaultConfig(), b.Config())
				}
				return err
			}))
		}
		for _, p := range opened {
			require.NoError(t, p.Wait())
		}
	})
}

func TestOtherSlotsOrFormatAreRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*schema.Config)
		parts  []string
	}{
		"slots":  {func(c *schema.Config) { c.Slots = 64 }, []string{"slots", "64", "256"}},
		"format": {func(c *schema.Config) { c.Format = 7 }, []string{"format", "7", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				a := join(t, s, lease.Authority, "a-1")
				config := schema.DefaultConfig()
				c.change(&config)
				data, err := json.Marshal(config)
				require.NoError(t, err)
				_, err = a.js().Publish(t.Context(), prefix.BucketKey(subjects.ConfigKey), data)
				require.NoError(t, err)
				for _, create := range []bool{true, false} {
					_, err = open(t, s, lease.Options{Create: create})
					require.ErrorIs(t, err, schema.ErrConfig)
					for _, part := range c.parts {
						require.ErrorContains(t, err, part)
					}
				}
				require.Equal(t, schema.DefaultConfig(), a.view.Config(), "a running process does not follow")
			})
		})
	}
}

func TestTTLBelowThreeHeartbeatsIsRefusedByName(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		config := schema.DefaultConfig()
		config.TTLMS = 3*config.HeartbeatMS - 1
		_, err := open(t, s, lease.Options{Create: true, Defaults: config})
		require.ErrorIs(t, err, schema.ErrConfig)
		require.ErrorContains(t, err, "ttl")
		require.ErrorContains(t, err, "heartbeat")
	})
}

func TestForeignBucketIsRefused(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		nc, _ := s.Dial("operator")
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: prefix.Bucket(), Storage: jetstream.MemoryStorage})
		require.NoError(t, err)
		_, err = open(t, s, lease.Options{Create: true})
		require.ErrorIs(t, err, lease.ErrForeignBucket)
		require.ErrorContains(t, err, "direct reads")
	})
}

func TestForeignStreamOfEventsIsRefused(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		for says, c := range map[string]jetstream.StreamConfig{
			`it takes ["mine.>"] and not "event.>"`: {Subjects: []string{"mine.>"}},
			"it acknowledges nothing":               {Subjects: []string{prefix.AllEvents()}, NoAck: true},
		} {
			c.Name, c.Storage = prefix.EventStream(), jetstream.MemoryStorage
			_, err := a.js().CreateStream(t.Context(), c)
			require.NoError(t, err)
			for _, age := range []time.Duration{0, time.Hour} {
				err := a.bucket.KeepEvents(t.Context(), age)
				require.ErrorIs(t, err, lease.ErrForeignEvents)
				require.ErrorContains(t, err, says)
			}
			require.NoError(t, a.js().DeleteStream(t.Context(), c.Name))
		}
		for range 2 {
			require.NoError(t, a.bucket.KeepEvents(t.Context(), 0))
		}
	})
}

func TestServerOfSmallMessagesIsRefused(t *testing.T) {
	bubble.RunWith(t, bubble.Options{Config: "max_payload: 1048575"}, func(t *testing.T, s *bubble.Server) {
		_, err := open(t, s, lease.Options{Create: true})
		require.ErrorIs(t, err, lease.ErrSmallMessages)
		require.ErrorContains(t, err, "it is 1048575 bytes")
	})
}

func TestConfigOfTheBucketWins(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		mine := schema.DefaultConfig()
		mine.LeaseMS, mine.Policy = 3000, "single"
		_, err := open(t, s, lease.Options{Create: true, Defaults: mine})
		require.NoError(t, err)
		b := join(t, s, lease.Authority, "a-1")
		require.Equal(t, mine, b.bucket.Config())
		require.Equal(t, mine, b.view.Config())
		a := b.hold()
		time.Sleep(time.Second)
		require.Less(t, time.Since(a.holder.Renewed()), 400*time.Millisecond, "renewed every tenth of 3 s")
	})
}

// TestSettingsDeleted: an operator has deleted the key config, or purged it, and later written what is none.
func TestSettingsDeleted(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		log := &logged{}
		mine := schema.DefaultConfig()
		mine.LeaseMS, mine.Policy = 60_000, "single"
		_, err := open(t, s, lease.Options{Create: true, Defaults: mine, Log: log.logger()})
		require.NoError(t, err)
		require.False(t, log.has("deleted"), "it was new")
		a := join(t, s, lease.Authority, "a-1")
		js := a.js()
		kv, err := js.KeyValue(t.Context(), prefix.Bucket())
		require.NoError(t, err)
		stream, err := js.Stream(t.Context(), prefix.BucketStream())
		require.NoError(t, err)
		_, err = kv.Put(t.Context(), "gateway.gw-9", []byte(`{}`))
		require.NoError(t, err)

		purge := func() error {
			return stream.Purge(t.Context(), jetstream.WithPurgeSubject(prefix.BucketKey(subjects.ConfigKey)))
		}
		for _, gone := range []func() error{func() error { return kv.Delete(t.Context(), subjects.ConfigKey) }, purge} {
			require.NoError(t, gone())
			bubble.Until(t, 2*time.Minute, "an authority writes them again as it knows them", func() bool {
				b, err := open(t, s, lease.Options{Defaults: schema.DefaultConfig()})
				return err == nil && b.Config() == mine
			})
		}
	})
}

// TestSettingsDeletedWithoutAnAuthority: who may make the bucket writes the defaults, and says so.
func TestSettingsDeletedWithoutAnAuthority(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		mine := schema.DefaultConfig()
		mine.Policy = "single"
		_, err := open(t, s, lease.Options{Create: true, Defaults: mine})
		require.NoError(t, err)
		nc, _ := s.Dial("operator")
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		kv, err := js.KeyValue(t.Context(), prefix.Bucket())
		require.NoError(t, err)
		require.NoError(t, kv.Delete(t.Context(), subjects.ConfigKey))
		waits := bubble.Go(t, func(ctx context.Context) error {
			_, err := lease.Open(ctx, nc, lease.Options{Memory: true})
			return err
		})
		time.Sleep(time.Minute)
		select {
		case <-waits.Done():
			require.Fail(t, "it waits for them")
		default:
		}
		log := &logged{}
		b, err := open(t, s, lease.Options{Create: true, Log: log.logger()})
		require.NoError(t, err)
		require.True(t, log.has("the mesh's settings were deleted: written anew, see `rollcall setup`"))
		require.Equal(t, schema.DefaultConfig(), b.Config())
		require.NoError(t, waits.Wait())

		_, err = kv.Put(t.Context(), subjects.ConfigKey, []byte("slots: 256"))
		require.NoError(t, err)
		_, err = open(t, s, lease.Options{Create: true})
		require.ErrorIs(t, err, schema.ErrConfig)
		require.ErrorContains(t, err, "delete that key, and `rollcall setup` writes it anew")
	})
}

func TestPolicyAndLimitsFollowTheNotice(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		g := join(t, s, lease.Gateway, "gw-1")
		told := follow(g.view)
		after, err := a.bucket.Configure(t.Context(), func(c *schema.Config) error {
			c.Policy, c.MaxSessions, c.LeaseMS = "multi", 3, 60_000
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, "multi", after.Policy)
		time.Sleep(100 * time.Millisecond)
		c := g.view.Config()
		require.Equal(t, "multi", c.Policy)
		require.Equal(t, 3, c.MaxSessions)
		require.Equal(t, 30*time.Second, c.Lease(), "a running process keeps its times")
		require.Len(t, told.all(), 1)
		require.Equal(t, "multi", told.all()[0].Config.Policy)
	})
}

func TestBucketLost(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		g := join(t, s, lease.Gateway, "gw-1").hold()
		fence, err := a.bucket.Claim(t.Context(), 7, 0, a.me())
		require.NoError(t, err)
		g.view.Saw(7, fence+1000)
		time.Sleep(time.Minute)
		oldA, oldG := a.me(), g.me()
		a.drop()
		bubble.Until(t, 30*time.Second, "both begin anew", func() bool { return len(a.Lives()) == 2 && len(g.Lives()) == 2 })
		for _, n := range []*node{a, g} {
			require.ErrorIs(t, n.Causes()[0], lease.ErrBucketLost)
			require.True(t, n.holder.Trusted())
		}
		bubble.Until(t, 2*time.Second, "seen by all", func() bool {
			return g.view.Standing(lease.Authority, a.me()) == lease.Living && a.view.Standing(lease.Gateway, g.me()) == lease.Living
		})
		require.Equal(t, lease.Gone, g.view.Standing(lease.Authority, oldA))
		require.Equal(t, lease.Gone, a.view.Standing(lease.Gateway, oldG))
		bubble.Until(t, 40*time.Second, "the slot is nobody's", func() bool { _, ok := g.view.Target(7); return !ok })
		again, err := a.bucket.Claim(t.Context(), 7, 0, a.me())
		require.NoError(t, err)
		require.Greater(t, again, fence)
		for _, n := range []*node{a, g} { // Young is as true as the last snapshot
			require.NoError(t, n.view.Refresh(t.Context()))
			require.True(t, n.view.Young())
		}
	})
}

// While no authority is there to make the bucket, a gateway keeps its sockets: its life goes on.
func TestGatewayOutlivesTheBucket(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		g := join(t, s, lease.Gateway, "gw-1").hold()
		old := g.me()
		a.drop()
		time.Sleep(time.Hour)
		require.Empty(t, g.Causes())
		require.False(t, g.holder.Trusted())
		require.Equal(t, lease.Living, g.view.Standing(lease.Gateway, old), "a bucket that is gone says nothing")
		require.True(t, g.log.has("waiting for the bucket: an authority makes it"))
		join(t, s, lease.Authority, "a-2")
		bubble.Until(t, 10*time.Second, "a new life", func() bool { return len(g.Lives()) == 2 })
		require.ErrorIs(t, g.Causes()[0], lease.ErrBucketLost)
	})
}

// Fences grow over the loss of a bucket also when they had run ahead of the clock.
func TestNewBucketBeginsAboveTheHighestFenceSeen(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		ahead := schema.Revision(time.Now().Add(24 * time.Hour).UnixMilli())
		a.view.Saw(3, ahead)
		a.drop()
		bubble.Until(t, 10*time.Second, "a new life", func() bool { return len(a.Lives()) == 2 })
		fence, err := a.bucket.Claim(t.Context(), 3, 0, a.me())
		require.NoError(t, err)
		require.Greater(t, fence, ahead)
	})
}

func TestServerRestarts(t *testing.T) {
	for _, wipe := range []bool{false, true} {
		name := map[bool]string{false: "bucket kept", true: "bucket lost"}[wipe]
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				nc, _ := s.Dial("authority")
				_, err := lease.Open(t.Context(), nc, lease.Options{Create: true}) // on disk
				require.NoError(t, err)
				a := join(t, s, lease.Authority, "a-1").hold()
				g := join(t, s, lease.Gateway, "gw-1").hold()
				s.Stop()
				time.Sleep(50 * time.Second)
				require.Empty(t, append(a.Causes(), g.Causes()...), "no answer is no loss")
				if wipe {
					s.Wipe()
				}
				s.Start()
				bubble.Until(t, 10*time.Second, "renewed", func() bool { return a.holder.Trusted() && g.holder.Trusted() })
				lives := map[bool]int{false: 1, true: 2}[wipe]
				require.Len(t, a.Lives(), lives)
				require.Len(t, g.Lives(), lives)
				for _, m := range append(a.view.Members(lease.Gateway), g.view.Members(lease.Authority)...) {
					require.Less(t, m.Quiet, 11*time.Second, "our own silence is not theirs")
				}
			})
		})
	}
}
