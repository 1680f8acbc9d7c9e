package schema_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Generators of whatever may stand in a message.
var (
	anyUID      = rapid.Custom(func(t *rapid.T) schema.UID { return drawText[schema.UID](t, 1, schema.MaxUID) })
	anyNode     = rapid.Map(rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`), func(s string) schema.NodeID { return schema.NodeID(s) })
	anyBoot     = rapid.Map(rapid.StringMatching(`[A-Za-z0-9_-]{22}`), func(s string) schema.BootID { return schema.BootID(s) })
	anyFlag     = rapid.Map(rapid.StringMatching(`([a-z0-9_-]{1,32})?`), func(s string) schema.Flag { return schema.Flag(s) })
	anyListener = rapid.Map(anyFlag, func(f schema.Flag) schema.Listener { return schema.Listener(f) })
	anyDevice   = rapid.Custom(func(t *rapid.T) schema.DeviceID { return drawText[schema.DeviceID](t, 0, schema.MaxDevice) })
	anyWhy      = rapid.StringN(-1, -1, 512)
	anyMillis   = rapid.Map(rapid.Int64Range(0, 1<<53), func(n int64) time.Duration { return time.Duration(n>>10) * time.Millisecond })
	anyNum      = rapid.Map(rapid.Uint64(), func(n uint64) schema.SessionNum { return schema.SessionNum(n) })
	anyRevision = rapid.Map(rapid.Uint64(), func(n uint64) schema.Revision { return schema.Revision(n) })
	anySeq      = rapid.Map(rapid.Uint64(), func(n uint64) schema.OwnerSeq { return schema.OwnerSeq(n) })
	anyClose    = rapid.Map(rapid.Uint16(), func(n uint16) schema.CloseCode { return schema.CloseCode(n) })
	anyCode     = rapid.Map(rapid.IntRange(0, int(schema.CodeInternal)), func(n int) schema.Code { return schema.Code(n) })
	anyToken    = rapid.Map(rapid.StringN(0, -1, 64), func(s string) schema.CommitToken { return schema.CommitToken(s) })
	anyPushed   = rapid.Map(rapid.IntRange(0, int(schema.PushPending)), func(n int) schema.PushResult { return schema.PushResult(n) })

	anyProcess = rapid.Custom(func(t *rapid.T) (p schema.Process) {
		if rapid.Bool().Draw(t, "somebody") {
			p = schema.Process{Node: anyNode.Draw(t, "node"), Boot: anyBoot.Draw(t, "boot")}
		}
		return p
	})
	anyTarget = rapid.Custom(func(t *rapid.T) schema.Target {
		return schema.Target{Slot: schema.Slot(rapid.IntRange(0, schema.Slots-1).Draw(t, "slot")), Fence: anyRevision.Draw(t, "fence"), Authority: anyProcess.Draw(t, "authority")}
	})
	anySlotHead = rapid.Custom(func(t *rapid.T) schema.SlotHead {
		return schema.SlotHead{Target: anyTarget.Draw(t, "target"), Seen: anyRevision.Draw(t, "seen"), From: anyProcess.Draw(t, "from"), Settled: anySeq.Draw(t, "settled")}
	})
	anyAnswerHead = rapid.Custom(func(t *rapid.T) schema.AnswerHead {
		return schema.AnswerHead{Code: anyCode.Draw(t, "code"), Target: anyTarget.Draw(t, "target"), Differs: rapid.StringN(0, -1, 32).Draw(t, "differs"),
			Owner: anyTarget.Draw(t, "owner"), Seen: anyRevision.Draw(t, "seen"), RetryAfter: anyMillis.Draw(t, "retry"),
			Suspect: rapid.Bool().Draw(t, "suspect"), Why: anyWhy.Draw(t, "why")}
	})
	anyProcessHead = rapid.Custom(func(t *rapid.T) schema.ProcessHead {
		return schema.ProcessHead{From: anyProcess.Draw(t, "from"), Code: anyCode.Draw(t, "code"), Why: anyWhy.Draw(t, "why")}
	})
	anyLogin = rapid.Custom(func(t *rapid.T) schema.Route {
		return schema.Route{UID: anyUID.Draw(t, "uid"), Session: anyNum.Draw(t, "session"), Device: anyDevice.Draw(t, "device"), Flag: anyFlag.Draw(t, "flag"),
			Level: schema.Level(rapid.IntRange(0, 1).Draw(t, "level")), Listener: anyListener.Draw(t, "listener"),
			Gen: schema.Generation(rapid.Uint64().Draw(t, "gen")), Seq: anySeq.Draw(t, "seq")}
	})
	anyRoute = rapid.Custom(func(t *rapid.T) schema.Route {
		r := anyLogin.Draw(t, "login")
		r.Order = schema.Order{Fence: anyRevision.Draw(t, "fence"), N: rapid.Uint64().Draw(t, "n")}
		r.Age, r.Idle = anyMillis.Draw(t, "age"), anyMillis.Draw(t, "idle")
		return r
	})
	anyResult = rapid.Custom(func(t *rapid.T) schema.LoginResult {
		return schema.LoginResult{Code: anyCode.Draw(t, "code"), Order: schema.Order{Fence: anyRevision.Draw(t, "fence"), N: rapid.Uint64().Draw(t, "n")},
			Token: anyToken.Draw(t, "token"), Conflicts: some(t, 4, rapid.Custom(func(t *rapid.T) schema.Conflict {
				return schema.Conflict{Owner: anyProcess.Draw(t, "owner"), Session: anyNum.Draw(t, "session"), Close: anyClose.Draw(t, "close"),
					Device: anyDevice.Draw(t, "device"), Forced: anyMillis.Draw(t, "forced")}
			})), RetryAfter: anyMillis.Draw(t, "retry"), Close: anyClose.Draw(t, "close"), Why: anyWhy.Draw(t, "why")}
	})
)

func drawText[T ~string](t *rapid.T, least, most int) T {
	return T(rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r >= 0x20 && !(r >= 0x7f && r < 0xa0) }), least, -1, most).Draw(t, "text"))
}

// some gives up to most of what g gives, nil for none.
func some[T any](t *rapid.T, most int, g *rapid.Generator[T]) []T {
	return rapid.Custom(func(t *rapid.T) (s []T) {
		for range rapid.IntRange(0, most).Draw(t, "n") {
			s = append(s, g.Draw(t, "item"))
		}
		return s
	}).Draw(t, "some")
}

// anyMessage gives any message that may be sent, of any kind.
var anyMessage = rapid.Custom(func(t *rapid.T) schema.Message {
	return rapid.OneOf(asMessage(drawRegister), asMessage(drawCommit), asMessage(drawResults), asMessage(drawLeave), asMessage(drawTouch),
		asMessage(drawSync), asMessage(drawRemove), asMessage(drawLookup), asMessage(drawLookupAnswer), asMessage(drawPush),
		asMessage(drawAcks), asMessage(drawKick), asMessage(drawSessions), asMessage(drawPlain)).Draw(t, "message")
})

func asMessage(draw func(*rapid.T) schema.Message) *rapid.Generator[schema.Message] {
	return rapid.Custom(draw)
}

func drawRegister(t *rapid.T) schema.Message {
	h := anySlotHead.Draw(t, "head")
	return &schema.Register{Head: h, Logins: some(t, 4, rapid.Custom(func(t *rapid.T) schema.Login {
		l := schema.Login{Route: anyLogin.Draw(t, "route"), ResumeBoot: anyBoot.Draw(t, "boot"), ResumeSession: anyNum.Draw(t, "session"), Left: anyMillis.Draw(t, "left")}
		l.Route.Owner = h.From
		return l
	}))}
}

func drawCommit(t *rapid.T) schema.Message {
	return &schema.Commit{Head: anySlotHead.Draw(t, "head"), Entries: some(t, 3, rapid.Custom(func(t *rapid.T) schema.CommitEntry {
		return schema.CommitEntry{UID: anyUID.Draw(t, "uid"), Session: anyNum.Draw(t, "session"), Token: anyToken.Draw(t, "token"),
			Ends: some(t, 3, rapid.Custom(func(t *rapid.T) schema.End {
				return schema.End{Owner: anyProcess.Draw(t, "owner"), Session: anyNum.Draw(t, "session"), How: schema.Ending(rapid.IntRange(1, 3).Draw(t, "how"))}
			}))}
	}))}
}

func drawResults(t *rapid.T) schema.Message {
	h := anyAnswerHead.Draw(t, "head")
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return &schema.RegisterAnswer{Head: h, Results: some(t, 4, anyResult)}
	case 1:
		return &schema.CommitAnswer{Head: h, Results: some(t, 4, anyResult)}
	case 2:
		return &schema.UnregisterAnswer{Head: h, Results: some(t, 9, anyCode)}
	case 3:
		return &schema.TouchAnswer{Head: h, Exceptions: some(t, 9, rapid.Custom(func(t *rapid.T) schema.TouchException {
			return schema.TouchException{Session: anyNum.Draw(t, "session"), Code: anyCode.Draw(t, "code"), Close: anyClose.Draw(t, "close")}
		}))}
	}
	return &schema.SyncAnswer{Head: h, Verdicts: some(t, 9, rapid.Custom(func(t *rapid.T) schema.SyncVerdict {
		return schema.SyncVerdict{Code: anyCode.Draw(t, "code"), Close: anyClose.Draw(t, "close")}
	})), Losers: some(t, 9, rapid.Custom(func(t *rapid.T) schema.Loser {
		return schema.Loser{UID: anyUID.Draw(t, "uid"), Owner: anyProcess.Draw(t, "owner"), Session: anyNum.Draw(t, "session"), Close: anyClose.Draw(t, "close")}
	}))}
}

func drawLeave(t *rapid.T) schema.Message {
	return &schema.Unregister{Head: anySlotHead.Draw(t, "head"), Entries: some(t, 5, rapid.Custom(func(t *rapid.T) schema.Leave {
		return schema.Leave{UID: anyUID.Draw(t, "uid"), Session: anyNum.Draw(t, "session"), Seq: anySeq.Draw(t, "seq"), Reason: schema.Reason(rapid.IntRange(0, int(schema.ReasonPolicy)).Draw(t, "reason"))}
	}))}
}

func drawTouch(t *rapid.T) schema.Message {
	m := &schema.Touch{Head: anySlotHead.Draw(t, "head")}
	index := uint32(0)
	for range rapid.IntRange(0, 9).Draw(t, "n") {
		index = rapid.Uint32Min(index).Draw(t, "index")
		m.Sessions = append(m.Sessions, schema.Touched{Session: schema.NewSessionNum(index, rapid.Uint32().Draw(t, "gen")),
			Idle: time.Duration(rapid.Int64Range(0, 1<<30).Draw(t, "idle")) * schema.TouchStep})
	}
	return m
}

func drawSync(t *rapid.T) schema.Message {
	m := &schema.Sync{Head: anySlotHead.Draw(t, "head"), Last: rapid.Bool().Draw(t, "last"), Routes: some(t, 9, anyRoute)}
	for i := range m.Routes {
		m.Routes[i].Owner = m.Head.From
	}
	return m
}

func drawRemove(t *rapid.T) schema.Message {
	return &schema.Remove{Head: anySlotHead.Draw(t, "head"), Entries: some(t, 9, rapid.Custom(func(t *rapid.T) schema.Disowned {
		return schema.Disowned{UID: anyUID.Draw(t, "uid"), Owner: anyProcess.Draw(t, "owner"), Session: anyNum.Draw(t, "session"), Seq: anySeq.Draw(t, "seq")}
	}))}
}

func drawLookup(t *rapid.T) schema.Message {
	m := &schema.Lookup{}
	for range rapid.IntRange(0, 4).Draw(t, "groups") {
		uids := some(t, 4, anyUID)
		m.Groups = append(m.Groups, schema.LookupGroup{Target: anyTarget.Draw(t, "target"), Seen: anyRevision.Draw(t, "seen"), Count: uint32(len(uids))})
		m.UIDs = append(m.UIDs, uids...)
	}
	return m
}

func drawLookupAnswer(t *rapid.T) schema.Message {
	m := &schema.LookupAnswer{ProcessHead: anyProcessHead.Draw(t, "head"), Groups: some(t, 4, rapid.Custom(func(t *rapid.T) schema.GroupAnswer {
		return schema.GroupAnswer{Code: anyCode.Draw(t, "code"), Target: anyTarget.Draw(t, "target"), Differs: rapid.StringN(0, -1, 32).Draw(t, "differs"),
			Owner: anyTarget.Draw(t, "owner"), Seen: anyRevision.Draw(t, "seen"), RetryAfter: anyMillis.Draw(t, "retry"),
			Rebuilding: rapid.Bool().Draw(t, "rebuilding"), Suspect: rapid.Bool().Draw(t, "suspect"),
			Stamp: schema.Stamp{Fence: anyRevision.Draw(t, "fence"), K: rapid.Uint64().Draw(t, "k")}}
	}))}
	for range rapid.IntRange(0, 5).Draw(t, "uids") {
		routes := some(t, 3, anyRoute)
		m.Counts = append(m.Counts, uint32(len(routes)))
		for _, r := range routes {
			r.UID, r.Owner, r.TTL = "", anyProcess.Draw(t, "owner"), anyMillis.Draw(t, "ttl")
			m.Routes = append(m.Routes, r)
		}
	}
	return m
}

func drawPush(t *rapid.T) schema.Message {
	return &schema.Push{To: anyProcess.Draw(t, "to"), Frames: some(t, 3, rapid.Custom(func(t *rapid.T) schema.PushFrame {
		f := schema.PushFrame{ID: rapid.StringN(0, -1, schema.MaxMessageID).Draw(t, "id"), Payload: some(t, 300, rapid.Byte()),
			Ack: rapid.Bool().Draw(t, "ack"), AckWait: anyMillis.Draw(t, "wait"), Recipients: some(t, 9, rapid.Custom(func(t *rapid.T) schema.Recipient {
				return schema.Recipient{UID: anyUID.Draw(t, "uid"), Session: anyNum.Draw(t, "session"), Seq: anySeq.Draw(t, "seq")}
			}))}
		if rapid.Bool().Draw(t, "from somebody") {
			f.From = anyUID.Draw(t, "from")
		}
		return f
	}))}
}

func drawAcks(t *rapid.T) schema.Message {
	results := some(t, 40, anyPushed)
	if rapid.Bool().Draw(t, "acks") {
		return &schema.PushAcks{From: anyProcess.Draw(t, "from"), Results: results}
	}
	return &schema.PushAnswer{ProcessHead: anyProcessHead.Draw(t, "head"), AcksFollow: rapid.Bool().Draw(t, "follow"), Results: results}
}

func drawKick(t *rapid.T) schema.Message {
	if rapid.Bool().Draw(t, "answer") {
		return &schema.KickAnswer{ProcessHead: anyProcessHead.Draw(t, "head"), Results: some(t, 9, anyCode)}
	}
	return &schema.Kick{To: anyProcess.Draw(t, "to"), Entries: some(t, 5, rapid.Custom(func(t *rapid.T) schema.KickEntry {
		return schema.KickEntry{UID: anyUID.Draw(t, "uid"), Session: anyNum.Draw(t, "session"), Fence: anyRevision.Draw(t, "fence"), Close: anyClose.Draw(t, "close"), Why: anyWhy.Draw(t, "why")}
	}))}
}

func drawSessions(t *rapid.T) schema.Message {
	if rapid.Bool().Draw(t, "question") {
		return &schema.Sessions{To: anyProcess.Draw(t, "to"), Only: anyNum.Draw(t, "only"), After: anyNum.Draw(t, "after"), Limit: rapid.Uint32().Draw(t, "limit")}
	}
	m := &schema.SessionsAnswer{ProcessHead: anyProcessHead.Draw(t, "head"), Next: anyNum.Draw(t, "next"), Routes: some(t, 9, anyRoute)}
	for i := range m.Routes {
		m.Routes[i].Owner, m.Routes[i].TTL = m.From, anyMillis.Draw(t, "ttl")
	}
	return m
}

func drawPlain(t *rapid.T) schema.Message {
	body := some(t, 300, rapid.Byte())
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return &schema.Explain{Target: anyTarget.Draw(t, "target"), Seen: anyRevision.Draw(t, "seen"), UID: anyUID.Draw(t, "uid")}
	case 1:
		return &schema.ExplainAnswer{Head: anyAnswerHead.Draw(t, "head"), Body: body}
	case 2:
		return &schema.Status{}
	case 3:
		return &schema.StatusAnswer{ProcessHead: anyProcessHead.Draw(t, "head"), Body: body}
	case 4:
		return &schema.RemoveAnswer{Head: anyAnswerHead.Draw(t, "head"), Removed: rapid.Uint32().Draw(t, "removed")}
	case 5:
		return &schema.Revoke{UID: anyUID.Draw(t, "uid"), Device: anyDevice.Draw(t, "device"), TokenID: rapid.StringN(0, -1, 256).Draw(t, "token"), Close: anyClose.Draw(t, "close"), Why: anyWhy.Draw(t, "why")}
	}
	return &schema.RevokeAnswer{ProcessHead: anyProcessHead.Draw(t, "head"), Ended: some(t, 5, rapid.Custom(func(t *rapid.T) schema.Revoked {
		return schema.Revoked{Session: anyNum.Draw(t, "session"), Device: anyDevice.Draw(t, "device"), Flag: anyFlag.Draw(t, "flag")}
	}))}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMessage.Draw(t, "message")
		b, err := schema.Marshal(m)
		require.NoError(t, err)
		got, err := schema.UnmarshalAny(b)
		require.NoError(t, err)
		require.Equal(t, m, got)
		again, err := schema.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, b, again)
		require.True(t, json.Valid(schema.Describe(m)), "%s", schema.Describe(m))
	})
}

// A bit that flipped on its way is refused or read as another message, and costs no more memory
// than the bytes could ask for.
func TestDamagedBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := schema.Marshal(anyMessage.Draw(t, "message"))
		require.NoError(t, err)
		for range rapid.IntRange(1, 4).Draw(t, "places") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		requireBounded(t, b)
	})
}

// allocFactor is how many bytes a decoder may allocate for each byte that it gets: a route of 11
// bytes becomes 168, and each of its words 16 more.
const allocFactor = 32

// requireBounded decodes b and measures what was allocated.
func requireBounded(t require.TestingT, b []byte) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := schema.UnmarshalAny(b)
	runtime.ReadMemStats(&after)
	require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(allocFactor*len(b)+16<<10), "%d bytes: %v", len(b), err)
	if err != nil {
		require.ErrorIs(t, err, schema.ErrMalformed)
	}
}

// What is sent again after a time-out must still be what it was.
func TestMarshalLeavesTheMessage(t *testing.T) {
	odd := 1234567891 * time.Nanosecond // no whole number of any unit on the wire
	messages := append(samples(),
		&schema.Register{Head: head, Logins: []schema.Login{{Route: schema.Route{UID: "a", Owner: other, Age: odd}, Left: odd}}},
		&schema.Sync{Head: head, Routes: []schema.Route{{UID: "a", Owner: other, Age: odd, Idle: -odd, TTL: odd}}},
		&schema.Touch{Head: head, Sessions: []schema.Touched{{Session: 1, Idle: odd}}},
		&schema.SessionsAnswer{Routes: []schema.Route{{UID: "a", Owner: other, TTL: odd}}},
		&schema.Push{Frames: []schema.PushFrame{{AckWait: odd}}},
	)
	for i, m := range messages {
		t.Run(name(i, m), func(t *testing.T) {
			want := clone(reflect.ValueOf(m)).Interface()
			first, err := schema.Marshal(m)
			require.NoError(t, err)
			require.Equal(t, want, m)
			second, err := schema.Marshal(m)
			require.NoError(t, err)
			require.True(t, bytes.Equal(first, second))
		})
	}
}

// clone copies a message with all its slices.
func clone(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		c.Set(reflect.New(v.Type().Elem()))
		c.Elem().Set(clone(v.Elem()))
	case reflect.Struct:
		for i := range v.NumField() {
			c.Field(i).Set(clone(v.Field(i)))
		}
	case reflect.Slice:
		if !v.IsNil() {
			c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
		for i := range v.Len() {
			c.Index(i).Set(clone(v.Index(i)))
		}
	}
	return c
}
