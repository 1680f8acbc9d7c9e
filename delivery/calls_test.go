package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestMessageCheck(t *testing.T) {
	ok := Message{ID: "m1", From: "alice", Payload: json.RawMessage(`{"a":1}`)}
	for name, tc := range map[string]struct {
		change func(*Message)
		want   error
	}{
		"ok":            {func(*Message) {}, nil},
		"no id":         {func(m *Message) { m.ID = "" }, nil},
		"no sender":     {func(m *Message) { m.From = "" }, nil},
		"largest":       {func(m *Message) { m.Payload = []byte(`"` + strings.Repeat("x", maxPayload-2) + `"`) }, nil},
		"too large":     {func(m *Message) { m.Payload = []byte(`"` + strings.Repeat("x", maxPayload-1) + `"`) }, ErrTooLarge},
		"long id":       {func(m *Message) { m.ID = strings.Repeat("x", schema.MaxMessageID+1) }, schema.ErrBad},
		"broken sender": {func(m *Message) { m.From = "a\x00" }, schema.ErrBad},
		"no payload":    {func(m *Message) { m.Payload = nil }, schema.ErrBad},
		"no JSON":       {func(m *Message) { m.Payload = json.RawMessage(`{"a"`) }, schema.ErrBad},
	} {
		t.Run(name, func(t *testing.T) {
			m := ok
			tc.change(&m)
			require.ErrorIs(t, m.check(), tc.want)
		})
	}
}

// The largest message of one recipient fits what gateways take and what is planned with.
func TestLargestMessageFits(t *testing.T) {
	m := Message{ID: strings.Repeat("i", schema.MaxMessageID), From: schema.UID(strings.Repeat("f", schema.MaxUID)),
		Payload: []byte(`"` + strings.Repeat("x", maxPayload-2) + `"`)}
	uid := schema.UID(strings.Repeat("u", schema.MaxUID))
	p := newPlan([]Found{online(uid, route(uid, 1, 1, "d", "app"), route(uid, 1, 2, "e", "app"))}, nil, filter{})
	batches := p.batches(p.all(), m.frameSize())
	require.Len(t, batches, 2)
	for _, b := range batches {
		require.LessOrEqual(t, b.size, schema.MaxPushBytes)
		data, err := schema.Marshal(&schema.Push{To: b.to, Frames: []schema.PushFrame{{ID: m.ID, From: m.From, Payload: m.Payload, Recipients: p.recipients(b)}}})
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), b.size)
	}
}

func TestCallOptions(t *testing.T) {
	boot := gateway(1).Boot
	sender := schema.Except{UID: "alice", Node: "gw-1", Boot: boot, Session: schema.SessionNum(7).Outside(boot)}
	c, err := newCall("eu", []CallOption{ToDevice("phone"), ToFlag("app"), Except(sender), AwaitFresh(time.Hour), AckWait(time.Hour), Fallback("missed")})
	require.NoError(t, err)
	require.Equal(t, filter{"phone", "app", skip{"alice", gateway(1), 7}}, c.filter)
	require.Equal(t, 30*time.Second, c.await)
	require.Equal(t, 30*time.Second, c.ackWait)
	require.Equal(t, "eu.fallback.missed", c.fallback)
	for name, tc := range map[string]struct {
		option CallOption
		want   error
	}{
		"fallback":        {Fallback("a.b"), schema.ErrBad},
		"no fallback":     {Fallback(""), schema.ErrBad},
		"bad flag":        {ToFlag("No Flag"), schema.ErrBad},
		"bad device":      {ToDevice("\xff"), schema.ErrBad},
		"foreign session": {Except(schema.Except{UID: "alice", Node: "gw-1", Boot: gateway(2).Boot, Session: sender.Session}), schema.ErrBad},
		"no session":      {Except(schema.Except{UID: "alice", Node: "gw-1", Boot: boot}), schema.ErrBad},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newCall("", []CallOption{tc.option})
			require.ErrorIs(t, err, tc.want)
		})
	}
}

func TestAwaitFresh(t *testing.T) {
	for name, tc := range map[string]struct {
		freshAfter, await, took time.Duration
		want                    schema.UserState
	}{
		"at once":        {0, time.Second, 20 * time.Millisecond, schema.Offline},
		"a moment later": {100 * time.Millisecond, time.Second, 140 * time.Millisecond, schema.Offline},
		"never":          {time.Hour, time.Second, time.Second, schema.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				lookup := func(_ context.Context, uids []schema.UID) []Found {
					require.Equal(t, []schema.UID{"dave"}, uids, "only who is not known")
					if time.Since(begun) < tc.freshAfter {
						return []Found{{UID: "dave", State: schema.Unknown}}
					}
					return []Found{{UID: "dave", State: schema.Offline}}
				}
				found := people()
				awaitFresh(t.Context(), lookup, found, begun.Add(tc.await))
				require.Equal(t, tc.took, time.Since(begun))
				require.Equal(t, tc.want, found[3].State)
				require.Equal(t, schema.Online, found[0].State)
			})
		})
	}
}

// Who is known to have some devices has them still where nobody answers the next look-up.
func TestAwaitFreshKeepsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		partial := online("alice", route("alice", 1, 7, "phone", "app"))
		partial.Partial = true
		gone := Found{UID: "bob", State: schema.Unknown, Why: client.WhyRebuilding, Target: schema.Target{Fence: 7}}
		found := []Found{partial, online("bob", route("bob", 1, 8, "phone", "app")), {UID: "dave", State: schema.Unknown, Why: client.WhyUnowned}}
		found[1].Partial = true
		lookup := func(_ context.Context, uids []schema.UID) []Found {
			require.Equal(t, []schema.UID{"alice", "bob", "dave"}, uids)
			return []Found{nobodyKnows(uids)[0], gone, nobodyKnows(uids)[2]}
		}
		awaitFresh(t.Context(), lookup, found, time.Now().Add(time.Second))
		require.Equal(t, []Found{partial, gone, nobodyKnows([]schema.UID{"dave"})[0]}, found)
	})
}

func TestPick(t *testing.T) {
	alice := people()[0].Routes
	name := func(i int) schema.SessionID { return alice[i].Session.Outside(alice[i].Owner.Boot) }
	for what, tc := range map[string]struct {
		req  KickRequest
		want []int
		err  error
	}{
		"all":             {KickRequest{UID: "alice"}, []int{0, 1, 2}, nil},
		"device":          {KickRequest{UID: "alice", Device: "tab"}, []int{1}, nil},
		"flag":            {KickRequest{UID: "alice", Flag: "app"}, []int{0, 1}, nil},
		"session":         {KickRequest{UID: "alice", Session: name(2)}, []int{2}, nil},
		"all but one":     {KickRequest{UID: "alice", ExceptSession: name(0)}, []int{1, 2}, nil},
		"flag but one":    {KickRequest{UID: "alice", Flag: "app", ExceptSession: name(0)}, []int{1}, nil},
		"of nobody":       {KickRequest{UID: "alice", Device: "none"}, nil, nil},
		"no uid":          {KickRequest{}, nil, schema.ErrBad},
		"token and flag":  {KickRequest{UID: "alice", TokenID: "t", Flag: "app"}, nil, schema.ErrBad},
		"token but one":   {KickRequest{UID: "alice", TokenID: "t", ExceptSession: name(0)}, nil, schema.ErrBad},
		"foreign session": {KickRequest{UID: "alice", Session: "1"}, nil, schema.ErrBad},
		"long reason":     {KickRequest{UID: "alice", Reason: strings.Repeat("x", 124)}, nil, schema.ErrBad},
	} {
		t.Run(what, func(t *testing.T) {
			p, err := newPick(tc.req)
			require.ErrorIs(t, err, tc.err)
			var got []int
			for i := range alice {
				if err == nil && p.takes(&alice[i]) {
					got = append(got, i)
				}
			}
			require.Equal(t, tc.want, got)
		})
	}
	p, err := newPick(KickRequest{UID: "alice"})
	require.NoError(t, err)
	p.over([]Kicked{{Route: &alice[1]}})
	require.True(t, p.takes(&alice[0]))
	require.False(t, p.takes(&alice[1]), "an earlier round has ended it")
}

func TestKickResults(t *testing.T) {
	codes := []schema.Code{schema.CodeOK, schema.CodeUnknown, schema.CodeInternal}
	require.Equal(t, schema.KickClosed, kickResult(codes, 0, nil))
	require.Equal(t, schema.KickNoSession, kickResult(codes, 1, nil))
	require.Equal(t, schema.KickUnknown, kickResult(codes, 2, nil))
	require.Equal(t, schema.KickOwnerGone, kickResult(nil, 0, fmt.Errorf("x: %w", client.ErrGone)))
	require.Equal(t, schema.KickUnknown, kickResult(nil, 0, client.ErrTimeout))
}

func TestStatus(t *testing.T) {
	refusal := &client.Refusal{Head: schema.AnswerHead{Code: schema.CodeUnavailable}}
	for want, errs := range map[int][]error{
		400: {bad("x"), checkUIDs([]schema.UID{""})},
		413: {fmt.Errorf("%w: x", ErrTooLarge)},
		429: {errBusy},
		500: {errors.New("x"), client.ErrAnswer},
		503: {refusal, fmt.Errorf("%w: x", ErrUnknownUser), client.ErrUnowned, ErrClosed, context.Canceled},
		504: {client.ErrTimeout, context.DeadlineExceeded},
	} {
		for _, err := range errs {
			require.Equal(t, want, status(err), "%v", err)
		}
	}
}

func TestPage(t *testing.T) {
	row := func(int) string { return strings.Repeat("x", 8) }
	for room, want := range map[int]string{
		1000: `{"results":["xxxxxxxx","xxxxxxxx","xxxxxxxx"]}`,
		40:   `{"results":["xxxxxxxx","xxxxxxxx"],"next":2}`,
		25:   `{"results":["xxxxxxxx"],"next":1}`,
	} {
		got, err := page(3, room, row)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.True(t, json.Valid(got))
	}
	_, err := page(3, 15, row)
	require.ErrorIs(t, err, ErrTooLarge)
	got, err := page(0, 15, row)
	require.NoError(t, err)
	require.Equal(t, `{"results":[]}`, string(got))
}

func TestCounts(t *testing.T) {
	p := newPlan(append(people(), online("eve", route("eve", 1, 9, "d", "app")), online("fay", route("fay", 1, 10, "d", "app"))), nil, filter{})
	p.settle(p.all(), []schema.PushResult{schema.PushWritten, schema.PushUnknown, schema.PushUnknown, schema.PushQueueFull, schema.PushUnknown, schema.PushNoSession})
	p.finish()
	got := counts(&Pushed{ID: "m", Users: p.users})
	require.Equal(t, schema.PushCounts{ID: "m", Reached: 1, Unreached: 3, Unknown: 2}, got)
}

func TestSumUp(t *testing.T) {
	got := sumUp([]schema.StatusReport{
		{Users: 2, Counts: []schema.NodeCount{{Node: "gw-2", Flag: "app", Sessions: 1}, {Node: "gw-1", Flag: "web", Sessions: 2}}},
		{Users: 3, Counts: []schema.NodeCount{{Node: "gw-1", Flag: "web", Sessions: 5}, {Node: "gw-1", Flag: "app", Sessions: 1}}},
	}, []schema.NodeID{"a-3"})
	require.Equal(t, schema.StatsReply{Users: 5, Sessions: 9, Missing: []schema.NodeID{"a-3"}, Nodes: []schema.NodeCount{
		{Node: "gw-1", Flag: "app", Sessions: 1}, {Node: "gw-1", Flag: "web", Sessions: 7}, {Node: "gw-2", Flag: "app", Sessions: 1},
	}}, got)
}
