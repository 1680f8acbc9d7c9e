package sessions_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// TestSessionsOfManyUsers: 2,000 sessions of 1,000 users on two gateways, each answer and each
// socket exactly as promised.
func TestSessionsOfManyUsers(t *testing.T) {
	m := newMesh(t, quick...)
	c := m.gather(1000)
	c.seen()

	c.pushed(schema.PushCall{UIDs: c.uids, ID: "to-all", From: "boss", Payload: []byte(`{"text":"hi"}`)}, everyDevice)
	c.pushed(schema.PushCall{UIDs: c.uids, ID: "to-phones", Device: phone, Payload: []byte(`1`)}, only(phone))
	c.pushed(schema.PushCall{UIDs: c.uids, ID: "to-desktops", Flag: "desktop", Payload: []byte(`2`)}, only(laptop))
	c.pushed(schema.PushCall{UIDs: append(c.uids[:300:300], c.uids[:300]...), ID: "named-twice", Payload: []byte(`3`)}, everyDevice)
	c.pushed(schema.PushCall{UIDs: []schema.UID{"nobody"}, ID: "to-nobody", Payload: []byte(`4`)}, everyDevice)
	c.pushEach()
	c.sendEach(200)
	c.settle("before-kicks")

	c.kickDevices(c.uids[:250])
	c.kickSessions(c.uids[250:500])
	c.kickAll(c.uids[500:600])
	c.seen()
	c.pushed(schema.PushCall{UIDs: c.uids, ID: "to-those-left", Payload: []byte(`5`)}, everyDevice)
	c.settle("after-kicks")
}

// pushEach pushes a message of its own to each user, many at the same time.
func (c *crowd) pushEach() {
	t := c.m.t
	t.Helper()
	call := func(i int) schema.PushCall {
		return schema.PushCall{UIDs: c.uids[i : i+1], ID: fmt.Sprintf("own-%d", i), From: "boss", Payload: []byte(`{"n":1}`)}
	}
	begun := time.Now()
	require.NoError(t, inParallel(len(c.uids), 32, func(i int) error {
		results, err := c.m.push(call(i))
		if err != nil {
			return err
		}
		return c.check(call(i), everyDevice, results)
	}))
	t.Logf("%d pushes to one user each, 32 at a time, %v", len(c.uids), time.Since(begun).Round(time.Millisecond))
	for i := range c.uids {
		c.note(call(i), everyDevice)
	}
}

// sendEach has the phones of the first n users send, to a backend that pushes what it gets to the
// sender's user and the next one, but not to the very session that has sent it.
func (c *crowd) sendEach(n int) {
	t := c.m.t
	t.Helper()
	sub, err := c.m.backend.Subscribe(subjects.Prefix("").AllUp(), func(msg *nats.Msg) { go c.relay(msg) })
	require.NoError(t, err)
	require.NoError(t, c.m.backend.Flush())
	begun := time.Now()
	require.NoError(t, inParallel(n, 32, func(i int) error {
		d := c.devices[c.uids[i]][0]
		sent := schema.PushCall{ID: fmt.Sprintf("sent-%d", i), UIDs: []schema.UID{d.uid, c.uids[i+1]}}
		payload, err := json.Marshal(sent)
		if err != nil {
			return err
		}
		answer, err := d.Send(t.Context(), payload)
		if err != nil {
			return fmt.Errorf("send of %s: %w", d.uid, err)
		}
		var reply schema.PushReply
		if err := json.Unmarshal(answer, &reply); err != nil {
			return err
		}
		return c.check(sent, allBut(d), reply.Results)
	}))
	t.Logf("%d sends, answered with what became of them, %v", n, time.Since(begun).Round(time.Millisecond))
	require.NoError(t, sub.Drain())
	for i := range n {
		call := schema.PushCall{ID: fmt.Sprintf("sent-%d", i), UIDs: []schema.UID{c.uids[i], c.uids[i+1]}}
		c.note(call, allBut(c.devices[c.uids[i]][0]))
	}
}

func allBut(sender *device) which { return func(d *device) bool { return d != sender } }

// relay is the backend: what it answers is what the sender gets. What it cannot answer ends as a
// time-out there.
func (c *crowd) relay(msg *nats.Msg) {
	var up schema.Up
	var call schema.PushCall
	if json.Unmarshal(msg.Data, &up) != nil || json.Unmarshal(up.Payload, &call) != nil {
		return
	}
	call.From, call.Payload = up.UID, []byte(`"relayed"`)
	call.Except = &schema.Except{UID: up.UID, Node: up.Node, Boot: up.Boot, Session: up.Session}
	if reply, err := ask[json.RawMessage](c.m, "push", call); err == nil {
		_ = msg.Respond(reply) // the sender's wait ends in timeout
	}
}

// kickDevices ends the phones of users.
func (c *crowd) kickDevices(uids []schema.UID) {
	c.m.t.Helper()
	c.kick("by device", uids, only(phone), func(uid schema.UID) schema.KickCall {
		return schema.KickCall{UID: uid, Device: phone, Reason: "lost phone"}
	})
}

// kickSessions ends the laptops of users, by their sessions.
func (c *crowd) kickSessions(uids []schema.UID) {
	c.m.t.Helper()
	c.kick("by session", uids, only(laptop), func(uid schema.UID) schema.KickCall {
		session, _ := c.devices[uid][1].current()
		return schema.KickCall{UID: uid, Session: session, Reason: "lost phone"}
	})
}

// kickAll ends all that users have.
func (c *crowd) kickAll(uids []schema.UID) {
	c.m.t.Helper()
	c.kick("by user", uids, everyDevice, func(uid schema.UID) schema.KickCall {
		return schema.KickCall{UID: uid, Reason: "lost phone"}
	})
}

// kick kicks users, one call each, and requires that those chosen, and no others, are closed with
// the code and the reason. It waits until look-ups show who is left: a gateway that has closed a session
// answers, and tells the authority meanwhile.
func (c *crowd) kick(how string, uids []schema.UID, chosen which, call func(schema.UID) schema.KickCall) {
	t := c.m.t
	t.Helper()
	begun := time.Now()
	require.NoError(t, inParallel(len(uids), 32, func(i int) error {
		open := c.open(uids[i], chosen)
		reply, err := ask[schema.KickReply](c.m, "kick", call(uids[i]))
		if err != nil {
			return err
		}
		if len(reply.Results) != len(open) {
			return fmt.Errorf("kick %s of %s: %+v", how, uids[i], reply)
		}
		for _, r := range reply.Results {
			d := open[r.Session]
			if d == nil || r.Device != d.id || r.Result != schema.KickClosed {
				return fmt.Errorf("kick %s of %s: %+v", how, uids[i], r)
			}
		}
		return kicked(open)
	}))
	took := time.Since(begun)
	c.m.eventually("look-ups show who is left", func() bool {
		return !slices.ContainsFunc(c.m.found(uids), func(u schema.UserReply) bool { return len(u.Routes) != len(c.open(u.UID, everyDevice)) })
	})
	t.Logf("%d kicks %s, %v", len(uids), how, took.Round(time.Millisecond))
}

// kicked waits until devices have been told.
func kicked(open map[schema.SessionID]*device) error {
	for _, d := range open {
		end, err := d.ended()
		if err != nil {
			return err
		}
		if end.Code != schema.CloseRemoved || end.Reason != "lost phone" {
			return fmt.Errorf("%s of %s was closed with %v", d.id, d.uid, end)
		}
	}
	return nil
}
