package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func TestProgress(t *testing.T) {
	var p progress
	p.notice(5)
	require.Zero(t, p.head, "what was before the first snapshot is not known")
	p.notice(6)
	p.snapshot(4, 0)
	require.Equal(t, schema.Revision(6), p.head, "5 and 6 were heard meanwhile")
	p.notice(8)
	require.Equal(t, schema.Revision(6), p.head)
	require.True(t, p.gap(), "7 was lost")
	p.notice(9)
	p.snapshot(7, 6)
	require.Equal(t, schema.Revision(9), p.head)
	require.False(t, p.gap())
	p.snapshot(20, 9)
	require.False(t, p.notice(15))
	require.Equal(t, schema.Revision(20), p.head)
	require.False(t, p.gap(), "late, not lost")
}

// A log that has lost its tail gives out its last revisions a second time.
func TestProgressFallsWithTheLog(t *testing.T) {
	heard := func() progress {
		p := progress{head: 10}
		require.False(t, p.notice(11))
		require.False(t, p.notice(12))
		require.Equal(t, schema.Revision(12), p.head)
		return p
	}
	p := heard()
	require.True(t, p.snapshot(8, 12), "it ends below what was heard before it")
	require.Equal(t, schema.Revision(8), p.head)
	seen := p
	require.True(t, p.notice(9), "so it has lost its tail")
	require.False(t, p.snapshot(9, 0))
	require.False(t, p.notice(10))
	require.Equal(t, schema.Revision(10), p.head)
	p.notice(12)
	require.True(t, p.gap())
	require.Equal(t, schema.Revision(10), p.head, "11 was lost")
	p = seen
	require.False(t, p.notice(13), "it has not: who was asked was behind")
	require.True(t, p.gap())
	require.False(t, p.snapshot(13, 8))
	require.Equal(t, schema.Revision(13), p.head)
	require.False(t, p.notice(14))

	p = heard()
	require.True(t, p.notice(9), "it was told already")
	require.Zero(t, p.head, "nobody knows where the log fell to")
	p.notice(10)
	require.Zero(t, p.head)
	require.False(t, p.snapshot(12, 12), "the reading began before")
	require.Zero(t, p.head, "it may be of the log that fell")
	require.False(t, p.snapshot(9, 0))
	require.Equal(t, schema.Revision(10), p.head)

	p = heard()
	require.False(t, p.snapshot(11, 11), "12 was heard during the reading")
	require.Equal(t, schema.Revision(12), p.head)
}

// Reads that fail are paced a key each; keys that nobody reads any more are not remembered.
func TestFailedReadsAreNotRememberedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := flights{of: map[string]*flight{}}
		for i := range 100 {
			key := fmt.Sprint("gateway.pod-", i)
			f, asked := reads.join(key)
			number, wait, err := reads.begin(f, asked)
			require.NoError(t, err)
			require.LessOrEqual(t, wait, time.Duration(0))
			reads.end(f, number, context.DeadlineExceeded)
			reads.leave(key, f)
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, len(reads.of), 3)
	})
}

func TestFailedSnapshotsAreSpacedOut(t *testing.T) {
	var p pace
	require.Zero(t, p.hold, "the first at once")
	var pauses []time.Duration
	for range 6 {
		p.failed()
		pauses = append(pauses, p.hold)
	}
	require.Equal(t, []time.Duration{50e6, 100e6, 200e6, 400e6, 800e6, 1e9}, pauses)
	p.succeeded()
	require.Equal(t, apart, p.hold)
	p.failed()
	require.Equal(t, retryFirst, p.hold)
}

func TestVerdict(t *testing.T) {
	marker := entry{rev: 3, marker: true}
	for name, c := range map[string]struct {
		e    entry
		err  error
		want verdict
	}{
		"mine":                   {authorityEntry(3, bootA, schema.StateServing), nil, mine},
		"mine, but dead":         {authorityEntry(3, bootA, schema.StateDead), nil, dead},
		"another":                {authorityEntry(3, bootB, schema.StateJoining), nil, other},
		"another, dead":          {authorityEntry(3, bootB, schema.StateDead), nil, dead},
		"deleted":                {marker, nil, dead},
		"not a value of ours":    {entry{rev: 3, data: []byte("x")}, nil, dead},
		"no key":                 {entry{}, ErrNoKey, bucketGone},
		"no bucket":              {entry{}, ErrNoBucket, bucketGone},
		"time-out":               {entry{}, context.DeadlineExceeded, unclear},
		"not connected":          {entry{}, nats.ErrReconnectBufExceeded, unclear},
		"connection closed":      {entry{}, nats.ErrConnectionClosed, closed},
		"the server is in haste": {entry{}, &jetstream.APIError{Code: 503}, unclear},
	} {
		require.Equal(t, c.want, judge(bootA, c.e, c.err), name)
	}
}

// Which answers prove that the bucket is within reach.
func TestReach(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"ok":              {nil, true},
		"no such key":     {jetstream.ErrMsgNotFound, true},
		"conflict":        {errConflict, true},
		"conflict, as KV": {jetstream.ErrKeyExists, true},
		"in flight":       {errInFlight, false},
		"time-out":        {context.DeadlineExceeded, false},
		"no responders":   {nats.ErrNoResponders, false},
		"no stream":       {jetstream.ErrStreamNotFound, false},
		"gave up":         {context.Canceled, true},
	} {
		var r reach
		r.heard(c.err)
		require.Equal(t, c.want, !r.failing, name)
	}
	r := reach{failing: true}
	r.heard(context.Canceled)
	require.True(t, r.failing, "giving up says nothing")
}

func TestConflictsOfBothKindsAreOne(t *testing.T) {
	b := &Bucket{}
	for _, err := range []error{errConflict, errInFlight, jetstream.ErrKeyExists} {
		require.ErrorIs(t, b.explain("write", "k", err), ErrConflict)
	}
	require.False(t, errors.Is(errInFlight, errConflict))
	require.NotErrorIs(t, b.explain("write", "k", nats.ErrNoResponders), ErrConflict)
}

func TestALostConnectionIsCalledSo(t *testing.T) {
	err := new(Bucket).explain("list", "", nats.ErrReconnectBufExceeded)
	require.ErrorIs(t, err, nats.ErrReconnectBufExceeded)
	require.ErrorContains(t, err, "list presence/: no connection to NATS at the moment")
}
