package mesh_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// garbage is what no process of the mesh sends.
var garbage = map[string][]byte{
	"nothing":       nil,
	"text":          []byte("hello"),
	"random bytes":  {0x93, 0x01, 0xff, 0x00, 0xc1, 0xc1},
	"array bomb":    {0xdd, 0xff, 0xff, 0xff, 0xff},
	"kind and bomb": {0x93, 0x01, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff},
	"bin bomb":      {0x93, 0x04, 0x01, 0xc6, 0xff, 0xff, 0xff, 0xff},
	"deep":          bytes.Repeat([]byte{0x91}, 100_000),
	"half a MiB":    bytes.Repeat([]byte{0xc0}, 512<<10),
	"extension":     {0x91, 0xd4, 0x01, 0x00},
	"a float":       binary.BigEndian.AppendUint64([]byte{0x92, 0x01, 0xcb}, 1),
	"JSON":          []byte(`{"uids":["alice"]}`),
}

// ear is a subject on which processes of the mesh answer each other. answer makes an empty answer
// and points to its code.
type ear struct {
	subject string
	answer  func() (schema.Message, *schema.Code)
}

var prefix = subjects.Prefix("")

// ears gives all of them, for alice's slot.
func ears(m *mesh.Mesh) []ear {
	t := m.Find("alice").Target
	slot := func(op subjects.SlotOp) string { return prefix.Slot(t.Slot, t.Fence, op) }
	g := m.Gateways[0].Me()
	return []ear{
		{slot(subjects.Register), func() (schema.Message, *schema.Code) { a := new(schema.RegisterAnswer); return a, &a.Head.Code }},
		{slot(subjects.Commit), func() (schema.Message, *schema.Code) { a := new(schema.CommitAnswer); return a, &a.Head.Code }},
		{slot(subjects.Unregister), func() (schema.Message, *schema.Code) { a := new(schema.UnregisterAnswer); return a, &a.Head.Code }},
		{slot(subjects.Touch), func() (schema.Message, *schema.Code) { a := new(schema.TouchAnswer); return a, &a.Head.Code }},
		{slot(subjects.Sync), func() (schema.Message, *schema.Code) { a := new(schema.SyncAnswer); return a, &a.Head.Code }},
		{slot(subjects.Remove), func() (schema.Message, *schema.Code) { a := new(schema.RemoveAnswer); return a, &a.Head.Code }},
		{prefix.Authority(t.Authority, subjects.Lookup), func() (schema.Message, *schema.Code) { a := new(schema.LookupAnswer); return a, &a.Code }},
		{prefix.Authority(t.Authority, subjects.Explain), func() (schema.Message, *schema.Code) { a := new(schema.ExplainAnswer); return a, &a.Head.Code }},
		{prefix.Push(g), func() (schema.Message, *schema.Code) { a := new(schema.PushAnswer); return a, &a.Code }},
		{prefix.Kick(g), func() (schema.Message, *schema.Code) { a := new(schema.KickAnswer); return a, &a.Code }},
		{prefix.Sessions(g), func() (schema.Message, *schema.Code) { a := new(schema.SessionsAnswer); return a, &a.Code }},
	}
}

// hears sends a body to an ear and gives the code of the answer.
func (e ear) hears(t *testing.T, m *mesh.Mesh, body []byte) schema.Code {
	t.Helper()
	answer, code := e.answer()
	require.NoError(t, schema.Unmarshal(m.Request(e.subject, body).Data, answer), e.subject)
	return *code
}

// TestGarbageOnNATS sends garbage to every subject on which the mesh listens. Each request is told
// that it is bad, and nobody else notices.
func TestGarbageOnNATS(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		alice := m.Gateways[0].Login("alice", "phone")
		w := newWitness(t, m)
		require.NoError(t, w.devices[0].Watch(t.Context(), "alice"))
		for name, body := range garbage {
			for _, e := range ears(m) {
				require.Equal(t, schema.CodeBad, e.hears(t, m, body), "%s to %s", name, e.subject)
			}
			for _, subject := range deaf(m) {
				require.NoError(t, m.Outsider.Publish(subject, body))
			}
		}
		m.Truth("alice")
		require.Equal(t, string(schema.Online), w.devices[0].Sees("alice").State)
		alice.Leave()
		m.Pass(time.Second)
		require.Equal(t, string(schema.Offline), w.devices[0].Sees("alice").State, "it still hears of her")
		w.undisturbed()
	})
}

// deaf gives subjects on which nothing is answered: those of events, operations that do not exist,
// and all the ears where nobody waits for the answer.
func deaf(m *mesh.Mesh) []string {
	t := m.Find("alice").Target
	list := []string{
		prefix.Event("alice"), prefix.SlotEvent(t.Slot), prefix.Event("alice") + ".more", prefix.Revoke(), prefix.SysDisconnect(),
		prefix.Slot(t.Slot, t.Fence, "dance"), prefix.Authority(t.Authority, "dance"), prefix.Authority(t.Authority, subjects.Status),
	}
	for _, e := range ears(m) {
		list = append(list, e.subject)
	}
	return list
}

// TestBrokenTargets sends well-formed messages to the right subject that say something else than it,
// or come from somebody who is nobody.
func TestBrokenTargets(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		m.Gateways[0].Login("alice", "phone")
		w := newWitness(t, m)
		good := m.Find("alice").Target
		route := m.Find("alice").Routes[0]
		from := route.Owner
		for _, c := range []struct {
			name    string
			change  func(h *schema.SlotHead)
			code    schema.Code
			differs string
		}{
			{"fence below", func(h *schema.SlotHead) { h.Target.Fence-- }, schema.CodeMismatch, "fence"},
			{"fence above", func(h *schema.SlotHead) { h.Target.Fence++ }, schema.CodeMismatch, "fence"},
			{"node", func(h *schema.SlotHead) { h.Target.Authority.Node = "a-9" }, schema.CodeMismatch, "node"},
			{"boot", func(h *schema.SlotHead) { h.Target.Authority.Boot = schema.NewBoot() }, schema.CodeMismatch, "boot"},
			{"no target", func(h *schema.SlotHead) { h.Target = schema.Target{} }, schema.CodeMismatch, "fence"},
			{"sender unknown", func(h *schema.SlotHead) { h.From = schema.Process{Node: "gw-9", Boot: schema.NewBoot()} }, schema.CodeRetry, ""},
			{"sender's boot unknown", func(h *schema.SlotHead) { h.From.Boot = schema.NewBoot() }, schema.CodeRetry, ""},
			{"no sender", func(h *schema.SlotHead) { h.From = schema.Process{} }, schema.CodeRetry, ""},
		} {
			head := schema.SlotHead{Target: good, Seen: good.Fence, From: from}
			c.change(&head)
			for _, req := range []schema.Message{
				&schema.Register{Head: head, Logins: []schema.Login{{Route: route, Left: time.Second}}},
				&schema.Unregister{Head: head, Entries: []schema.Leave{{UID: "alice", Session: route.Session, Seq: route.Seq + 100}}},
				&schema.Touch{Head: head, Sessions: []schema.Touched{{Session: route.Session}}},
			} {
				code, differs := tell(t, m, good, req)
				require.Equal(t, c.code, code, "%s: %T", c.name, req)
				require.Equal(t, c.differs, differs, "%s: %T", c.name, req)
			}
		}
		m.Truth("alice")
		w.undisturbed()
	})
}

// tell sends a request to a slot's owner and gives how it is refused.
func tell(t *testing.T, m *mesh.Mesh, to schema.Target, req schema.Message) (code schema.Code, differs string) {
	t.Helper()
	body, err := schema.Marshal(req)
	require.NoError(t, err)
	ask := func(op subjects.SlotOp, answer schema.Message) {
		require.NoError(t, schema.Unmarshal(m.Request(prefix.Slot(to.Slot, to.Fence, op), body).Data, answer))
	}
	var head schema.AnswerHead
	switch req.(type) {
	case *schema.Register:
		var a schema.RegisterAnswer
		ask(subjects.Register, &a)
		head = a.Head
	case *schema.Unregister:
		var a schema.UnregisterAnswer
		ask(subjects.Unregister, &a)
		head = a.Head
	case *schema.Touch:
		var a schema.TouchAnswer
		ask(subjects.Touch, &a)
		head = a.Head
	}
	return head.Code, head.Differs
}

// TestWrongAddress sends well-formed messages to processes that they are not for, and routes that
// break rules.
func TestWrongAddress(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		m.Gateways[0].Login("alice", "phone")
		w := newWitness(t, m)
		good, route := m.Find("alice").Target, m.Find("alice").Routes[0]
		stranger := m.Gateways[1].Me()
		for e, req := range map[int]schema.Message{
			8:  &schema.Push{To: stranger, Frames: []schema.PushFrame{{ID: "m", Payload: []byte("1"), Recipients: []schema.Recipient{{UID: "alice", Session: route.Session, Seq: route.Seq}}}}},
			9:  &schema.Kick{To: stranger, Entries: []schema.KickEntry{{UID: "alice", Session: route.Session, Fence: good.Fence, Close: schema.CloseKicked}}},
			10: &schema.Sessions{To: stranger, Limit: 10},
		} {
			body, err := schema.Marshal(req)
			require.NoError(t, err)
			require.Equal(t, schema.CodeMismatch, ears(m)[e].hears(t, m, body), "%T", req)
		}
		head := schema.SlotHead{Target: good, Seen: good.Fence, From: route.Owner}
		elsewhere := route
		elsewhere.UID, elsewhere.Seq = "somebody of another slot", route.Seq+100
		require.NotEqual(t, good.Slot, subjects.SlotOf(elsewhere.UID))
		body, err := schema.Marshal(&schema.Register{Head: head, Logins: []schema.Login{{Route: elsewhere, Left: time.Second}}})
		require.NoError(t, err)
		var a schema.RegisterAnswer
		require.NoError(t, schema.Unmarshal(m.Request(prefix.Slot(good.Slot, good.Fence, subjects.Register), body).Data, &a))
		require.Equal(t, schema.CodeOK, a.Head.Code)
		require.Equal(t, schema.CodeBad, a.Results[0].Code)
		m.Truth("alice", elsewhere.UID)
		w.undisturbed()
	})
}

// TestImpossibleFence names a fence far beyond any that there can be, in every place that is
// listened to. Nobody believes it.
func TestImpossibleFence(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		m.Gateways[0].Login("alice", "phone")
		w := newWitness(t, m)
		good, route := m.Find("alice").Target, m.Find("alice").Routes[0]
		const never = schema.Revision(math.MaxUint64)
		head := schema.SlotHead{Target: good, Seen: never, From: route.Owner}
		for _, req := range []schema.Message{
			&schema.Register{Head: head, Logins: []schema.Login{{Route: route}}},
			&schema.Touch{Head: head},
			&schema.Unregister{Head: head},
		} {
			tell(t, m, good, req)
		}
		kick := &schema.Kick{To: route.Owner, Entries: []schema.KickEntry{{UID: "alice", Session: 1<<32 | 999, Fence: never}}}
		body, err := schema.Marshal(kick)
		require.NoError(t, err)
		m.Request(prefix.Kick(route.Owner), body)
		m.Pass(time.Minute)
		require.Equal(t, good, m.Find("alice").Target, "the slot is where it was")
		for _, g := range m.Gateways {
			g.Login("alice", "phone")
		}
		m.Truth("alice")
		w.undisturbed()
	})
}

// TestBadCalls asks the service for what it cannot do. Each call is told why by a code and a
// sentence, and nobody else notices.
func TestBadCalls(t *testing.T) {
	many := `{"uids":[` + manyUIDs(1001) + `],"payload":1}`
	deep := func(n int) string {
		return `{"uids":["alice"],"payload":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		m.Gateways[0].Login("alice", "phone")
		w := newWitness(t, m)
		for _, c := range []struct{ call, body, code, sentence string }{
			{"lookup", `{"uids":`, "400", "not JSON"},
			{"lookup", `["alice"]`, "400", "takes an object"},
			{"lookup", `{"uids":"alice"}`, "400", "uids"},
			{"lookup", `{"uids":[7]}`, "400", "uids"},
			{"lookup", `{"uids":["alice",""]}`, "400", "uids[1]"},
			{"lookup", "{\"uids\":[\"\xff\"]}", "400", "UTF-8"},
			{"lookup", `{"uids":["` + strings.Repeat("x", 257) + `"]}`, "400", "257 bytes"},
			{"lookup", many, "413", "1000"},
			{"lookup", `{"uids":["alice"],"await_ms":-1}`, "400", "await_ms"},
			{"push", `{"uids":["alice"]}`, "400", "payload"},
			{"push", many, "413", "1000"},
			{"push", deep(20_000), "400", "max depth"},
			{"push", deep(40), "400", "payload nests deeper than 32"},
			{"push", `{"uids":["alice"],"payload":1,"report":"all"}`, "400", "report"},
			{"push", `{"uids":["alice"],"payload":1,"flag":"No Flag"}`, "400", "flag"},
			{"push", `{"uids":["alice"],"payload":1,"id":"` + strings.Repeat("x", 129) + `"}`, "400", "id"},
			{"push", `{"uids":["alice"],"payload":1,"except":{"session":"x"}}`, "400", "except"},
			{"push", `{"uids":["alice"],"payload":"` + strings.Repeat("x", 300<<10) + `"}`, "413", "payload"},
			{"push", `{"uids":["alice"],"payload":1,"ack_wait_ms":-5}`, "400", "ack_wait_ms"},
			{"push", `{"uids":["alice"],"payload":1,"fallback":"a.b"}`, "400", "fallback"},
			{"kick", `{}`, "400", "uid"},
			{"kick", `{"uid":"alice","session":"x"}`, "400", "session"},
			{"kick", `{"uid":"alice","reason":"` + strings.Repeat("x", 124) + `"}`, "400", "reason"},
			{"explain", `{}`, "400", "uid"},
			{"slots", `[`, "400", "JSON"},
		} {
			code, sentence := m.Call(c.call, []byte(c.body), nil)
			require.Equal(t, c.code, code, "%s %.60s: %s", c.call, c.body, sentence)
			require.Contains(t, sentence, c.sentence, "%s %.60s", c.call, c.body)
		}
		for name, body := range garbage {
			if name == "nothing" || name == "JSON" {
				continue
			}
			for _, call := range []string{"lookup", "push", "kick", "explain"} {
				code, _ := m.Call(call, body, nil)
				require.Equal(t, "400", code, "%s to %s", name, call)
			}
		}
		m.Truth("alice")
		w.undisturbed()
	})
}
