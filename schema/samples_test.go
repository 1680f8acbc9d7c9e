package schema_test

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

var (
	gateway   = schema.Process{Node: "gw-1", Boot: "AAAAAAAAAAAAAAAAAAAAAA"}
	other     = schema.Process{Node: "gw-2", Boot: "BBBBBBBBBBBBBBBBBBBBBB"}
	authority = schema.Process{Node: "a-1", Boot: "CCCCCCCCCCCCCCCCCCCCCC"}
	successor = schema.Process{Node: "a-2", Boot: "DDDDDDDDDDDDDDDDDDDDDD"}

	target = schema.Target{Slot: 17, Fence: 1790000000123, Authority: authority}
	owner  = schema.Target{Slot: 17, Fence: 1790000000200, Authority: successor}

	head    = schema.SlotHead{Target: target, Seen: 1790000000123, From: gateway, Settled: 40}
	served  = schema.AnswerHead{Target: target, Seen: 1790000000123}
	refused = schema.AnswerHead{Code: schema.CodeMismatch, Target: target, Differs: "fence", Owner: owner,
		Seen: 1790000000200, RetryAfter: 50 * time.Millisecond, Suspect: true, Why: "another has it"}
)

func alice(seq schema.OwnerSeq) schema.Route {
	return schema.Route{UID: "alice", Owner: gateway, Session: schema.NewSessionNum(7, 1), Device: "phone-1",
		Flag: "app", Level: schema.Master, Listener: "ws", Gen: 3, Seq: seq}
}

// settled is a route as it travels once it is committed.
func settled(r schema.Route, n uint64) schema.Route {
	r.Order = schema.Order{Fence: 1790000000123, N: n}
	r.Age, r.Idle = 65*time.Second, 1200*time.Millisecond
	return r
}

func zoe() schema.Route {
	return schema.Route{UID: "zoë 🚀", Owner: gateway, Session: schema.NewSessionNum(300, 2), Flag: "web", Listener: "wss", Seq: 41}
}

func living(r schema.Route, owner schema.Process) schema.Route {
	r.UID, r.Owner, r.TTL = "", owner, 88*time.Second
	return r
}

func paged(r schema.Route) schema.Route {
	r.TTL = 90 * time.Second
	return r
}

// samples is one message of each kind with all its fields set, and more where two forms of one
// are worth a look. Their bytes are in testdata/messages.golden.
func samples() []schema.Message {
	return []schema.Message{
		&schema.Register{Head: head, Logins: []schema.Login{
			{Route: alice(42), ResumeBoot: other.Boot, ResumeSession: schema.NewSessionNum(9, 1), Left: 4900 * time.Millisecond},
			{Route: zoe(), Left: 5 * time.Second},
		}},
		&schema.RegisterAnswer{Head: served, Results: []schema.LoginResult{
			{Order: schema.Order{Fence: 1790000000123, N: 5}},
			{Code: schema.CodeConflict, Token: "17.5.abc", Conflicts: []schema.Conflict{
				{Owner: other, Session: schema.NewSessionNum(2, 1), Close: schema.CloseReplaced, Device: "phone-1", Forced: 2 * time.Second},
				{Owner: gateway, Session: schema.NewSessionNum(3, 4), Close: schema.CloseKicked, Device: "phone-2", Forced: 1500 * time.Millisecond},
			}},
			{Code: schema.CodeDamped, RetryAfter: 30 * time.Second},
			{Code: schema.CodeRefused, Close: schema.CloseRefused, Why: "32 sessions are the most"},
		}},
		&schema.RegisterAnswer{Head: refused},
		&schema.Commit{Head: head, Entries: []schema.CommitEntry{{UID: "alice", Session: schema.NewSessionNum(7, 1), Token: "17.5.abc", Ends: []schema.End{
			{Owner: other, Session: schema.NewSessionNum(2, 1), How: schema.EndAnswered},
			{Owner: gateway, Session: schema.NewSessionNum(3, 4), How: schema.EndForced},
		}}}},
		&schema.CommitAnswer{Head: served, Results: []schema.LoginResult{{Order: schema.Order{Fence: 1790000000123, N: 6}}, {Code: schema.CodeDeadToken}}},
		&schema.Unregister{Head: head, Entries: []schema.Leave{
			{UID: "alice", Session: schema.NewSessionNum(7, 1), Seq: 43, Reason: schema.ReasonLeave},
			{UID: "zoë 🚀", Session: schema.NewSessionNum(300, 2), Seq: 44, Reason: schema.ReasonTimeout},
		}},
		&schema.UnregisterAnswer{Head: served, Results: []schema.Code{schema.CodeOK, schema.CodeOldSeq}},
		&schema.Touch{Head: head, Sessions: []schema.Touched{
			{Session: schema.NewSessionNum(7, 1), Idle: 300 * time.Millisecond},
			{Session: schema.NewSessionNum(9, 1), Idle: 9900 * time.Millisecond},
			{Session: schema.NewSessionNum(300, 2)},
		}},
		&schema.TouchAnswer{Head: served, Exceptions: []schema.TouchException{
			{Session: schema.NewSessionNum(9, 1), Code: schema.CodeUnknown},
			{Session: schema.NewSessionNum(300, 2), Code: schema.CodeSuperseded, Close: schema.CloseReplaced},
		}},
		&schema.Sync{Head: head, Last: true, Routes: []schema.Route{settled(alice(45), 5), settled(zoe(), 2)}},
		&schema.Sync{Head: head, Last: true},
		&schema.SyncAnswer{Head: served,
			Verdicts: []schema.SyncVerdict{{}, {Code: schema.CodeSuperseded, Close: schema.CloseKicked}},
			Losers:   []schema.Loser{{UID: "alice", Owner: other, Session: schema.NewSessionNum(2, 1), Close: schema.CloseReplaced}}},
		&schema.Remove{Head: schema.SlotHead{Target: target, Seen: target.Fence}, Entries: []schema.Disowned{
			{UID: "alice", Owner: gateway, Session: schema.NewSessionNum(7, 1), Seq: 42},
			{UID: "alice", Owner: other, Session: schema.NewSessionNum(2, 1), Seq: 8},
		}},
		&schema.RemoveAnswer{Head: served, Removed: 1},
		&schema.Lookup{Groups: []schema.LookupGroup{{Target: target, Seen: target.Fence, Count: 2}, {Target: schema.Target{Slot: 18, Fence: 1790000000001, Authority: authority}, Seen: 1790000000001, Count: 1}},
			UIDs: []schema.UID{"alice", "bob", "zoë 🚀"}},
		&schema.LookupAnswer{ProcessHead: schema.ProcessHead{From: authority},
			Groups: []schema.GroupAnswer{
				{Target: target, Seen: target.Fence, Rebuilding: true, Suspect: true, Stamp: schema.Stamp{Fence: 1790000000123, K: 9}},
				{Code: schema.CodeMismatch, Target: target, Differs: "fence", Owner: owner, Seen: owner.Fence, RetryAfter: 10 * time.Millisecond},
			},
			Counts: []uint32{2, 0, 0},
			Routes: []schema.Route{living(settled(alice(42), 5), gateway), living(settled(zoe(), 2), other)}},
		&schema.Explain{Target: target, Seen: target.Fence, UID: "alice"},
		schema.NewExplainAnswer(served, schema.Explanation{UID: "alice", Slot: 17, Owner: "a-1", Boot: authority.Boot, Fence: target.Fence, State: schema.SlotReady,
			Refusals: []schema.ExplainedNo{{Node: "gw-2", Code: schema.CodeOldSeq, AgoMS: 12}}}),
		&schema.Status{},
		schema.NewStatusAnswer(schema.StatusReport{Process: schema.ProcessName(authority), Slots: []schema.SlotStatus{{Slot: 17, State: schema.SlotReady, Routes: 2}}, Users: 1}),
		&schema.Push{To: gateway, Frames: []schema.PushFrame{
			{ID: "m1", From: "bob", Payload: []byte(`{"text":"hi"}`), Ack: true, AckWait: 3 * time.Second, Recipients: []schema.Recipient{
				{UID: "alice", Session: schema.NewSessionNum(7, 1), Seq: 42}, {UID: "zoë 🚀", Session: schema.NewSessionNum(300, 2), Seq: 41}}},
			{ID: "m2", Payload: []byte("1"), Recipients: []schema.Recipient{{UID: "alice", Session: schema.NewSessionNum(7, 1), Seq: 42}}},
		}},
		&schema.PushAnswer{ProcessHead: schema.ProcessHead{From: gateway}, AcksFollow: true, Results: []schema.PushResult{schema.PushWritten, schema.PushPending, schema.PushNoSession}},
		&schema.PushAcks{From: gateway, Results: []schema.PushResult{schema.PushAcked, schema.PushPending, schema.PushNoSession}},
		&schema.Kick{To: other, Entries: []schema.KickEntry{{UID: "alice", Session: schema.NewSessionNum(2, 1), Fence: target.Fence, Close: schema.CloseReplaced, Why: "replaced by the same device"}}},
		&schema.Kick{To: other},
		&schema.KickAnswer{ProcessHead: schema.ProcessHead{From: other}, Results: []schema.Code{schema.CodeOK, schema.CodeUnknown, schema.CodeStale}},
		&schema.KickAnswer{ProcessHead: schema.ProcessHead{From: other, Code: schema.CodeBad, Why: "not for this boot"}},
		&schema.Sessions{To: gateway, Only: schema.NewSessionNum(7, 1), After: schema.NewSessionNum(3, 1), Limit: 500},
		&schema.SessionsAnswer{ProcessHead: schema.ProcessHead{From: gateway}, Next: schema.NewSessionNum(300, 2), Routes: []schema.Route{paged(settled(alice(42), 5)), paged(settled(zoe(), 2))}},
		&schema.Revoke{UID: "alice", Device: "phone-1", TokenID: "jti-1", Close: schema.CloseRemoved, Why: "revoked"},
		&schema.RevokeAnswer{ProcessHead: schema.ProcessHead{From: gateway}, Ended: []schema.Revoked{{Session: schema.NewSessionNum(7, 1), Device: "phone-1", Flag: "app"}}},
	}
}
