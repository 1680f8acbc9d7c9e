package subjects_test

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

var (
	gateway   = schema.Process{Node: "gw-1", Boot: "AAAAAAAAAAAAAAAAAAAAAA"}
	authority = schema.Process{Node: "a-1", Boot: "CCCCCCCCCCCCCCCCCCCCCC"}
)

// must gives the subject of a builder that can refuse.
func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

func TestBuilders(t *testing.T) {
	for _, prefix := range []subjects.Prefix{"", "acme", "acme.eu-1"} {
		front, name := "", ""
		if prefix != "" {
			front, name = string(prefix)+".", strings.ReplaceAll(string(prefix), ".", "_")+"_"
		}
		p := prefix
		for want, got := range map[string]string{
			"slot.17.1790000000123.register":               p.Slot(17, 1790000000123, subjects.Register),
			"slot.0.1.commit":                              p.Slot(0, 1, subjects.Commit),
			"slot.255.18446744073709551615.unregister":     p.Slot(255, 1<<64-1, subjects.Unregister),
			"slot.1.2.touch":                               p.Slot(1, 2, subjects.Touch),
			"slot.1.2.sync":                                p.Slot(1, 2, subjects.Sync),
			"slot.1.2.remove":                              p.Slot(1, 2, subjects.Remove),
			"slot.1.2.*":                                   p.SlotAll(1, 2),
			"authority.a-1.CCCCCCCCCCCCCCCCCCCCCC.lookup":  p.Authority(authority, subjects.Lookup),
			"authority.a-1.CCCCCCCCCCCCCCCCCCCCCC.explain": p.Authority(authority, subjects.Explain),
			"authority.a-1.CCCCCCCCCCCCCCCCCCCCCC.status":  p.Authority(authority, subjects.Status),
			"authority.a-1.CCCCCCCCCCCCCCCCCCCCCC.drain":   p.Authority(authority, subjects.Drain),
			"authority.a-1.CCCCCCCCCCCCCCCCCCCCCC.*":       p.AuthorityAll(authority),
			"push.gw-1.AAAAAAAAAAAAAAAAAAAAAA":             p.Push(gateway),
			"kick.gw-1.AAAAAAAAAAAAAAAAAAAAAA":             p.Kick(gateway),
			"gateway.gw-1.AAAAAAAAAAAAAAAAAAAAAA.sessions": p.Sessions(gateway),
			"gateway.gw-1.AAAAAAAAAAAAAAAAAAAAAA.drain":    p.DrainGateway(gateway),
			"revoke":                  p.Revoke(),
			"fallback.offline_push-1": must(p.Fallback("offline_push-1")),
			"event.231.alice":         p.Event("alice"),
			"event.203.=YUBi":         p.Event("a@b"),
			"event.17":                p.SlotEvent(17),
			"event.>":                 p.AllEvents(),
			"up.231.alice":            p.Up("alice"),
			"up.>":                    p.AllUp(),
			"presence.lookup":         p.ServiceCall("lookup"),
			"presence.changed.>":      p.Changed(),
			"sys.disconnect":          p.SysDisconnect(),
			"auth.connect":            p.AuthConnect(),
			"auth.watch":              p.AuthWatch(),
			"event.*":                 p.SlotEvents(),
		} {
			require.Equal(t, front+want, got)
		}
		require.Equal(t, name+"presence", p.Service())
		require.Equal(t, name+"presence", p.Bucket())
		require.Equal(t, name+"presence_events", p.EventStream())
		require.Equal(t, name+"last_seen", p.LastSeenBucket())
		require.Equal(t, "$KV."+name+"last_seen.=YUBi", p.LastSeen("a@b"))
		require.Equal(t, "$JS.API.DIRECT.GET.KV_"+name+"last_seen.$KV."+name+"last_seen.alice", p.LastSeenGet("alice"))
		require.Equal(t, "KV_"+name+"presence", p.BucketStream())
		require.Equal(t, "$KV."+name+"presence.>", p.BucketSubjects())
		require.Equal(t, "$KV."+name+"presence.slot.17", p.BucketKey(subjects.SlotKey(17)))
	}
	require.Equal(t, "authority.a-1", subjects.AuthorityKey("a-1"))
	require.Equal(t, "gateway.gw-1", subjects.GatewayKey("gw-1"))
	require.Equal(t, "_INBOX_gateway", subjects.Inbox("gateway"))
}

func TestFallbackRefuses(t *testing.T) {
	for _, bad := range []string{"", "a.b", "*", ">", "a b", "é", strings.Repeat("x", 65)} {
		_, err := subjects.Prefix("").Fallback(bad)
		require.ErrorContains(t, err, "fallback")
	}
}

func TestPrefixCheck(t *testing.T) {
	for _, good := range []subjects.Prefix{"", "a", "acme.eu-1.x_y", "0"} {
		require.NoError(t, good.Check(), "%q", good)
	}
	for _, bad := range []subjects.Prefix{".", "a.", ".a", "a..b", "a b", "*", "a.>", "$SYS", "é", subjects.Prefix(strings.Repeat("x", 65))} {
		require.ErrorContains(t, bad.Check(), "prefix", "%q", bad)
	}
}

func TestParsers(t *testing.T) {
	for _, p := range []subjects.Prefix{"", "acme.eu"} {
		s, fence, op, ok := p.ParseSlot(p.Slot(255, 1<<64-1, subjects.Sync))
		require.True(t, ok)
		require.Equal(t, schema.Slot(255), s)
		require.Equal(t, schema.Revision(1<<64-1), fence)
		require.Equal(t, subjects.Sync, op)

		ask, ok := p.ParseAuthority(p.Authority(authority, subjects.Status))
		require.True(t, ok)
		require.Equal(t, subjects.Status, ask)

		for _, uid := range []schema.UID{"alice", "a b.c*", "🚀", schema.UID(strings.Repeat("é", 128))} {
			got, ok := p.ParseEvent(p.Event(uid))
			require.True(t, ok)
			require.Equal(t, uid, got)
			got, ok = p.ParseUp(p.Up(uid))
			require.True(t, ok)
			require.Equal(t, uid, got)
		}
		for _, key := range []string{subjects.ConfigKey, subjects.SlotKey(3), subjects.GatewayKey("gw-1")} {
			got, ok := p.ParseChanged(strings.TrimSuffix(p.Changed(), ">") + key)
			require.True(t, ok)
			require.Equal(t, key, got)
		}
	}
	kind, name := subjects.ParseKey(subjects.GatewayKey("gw-1"))
	require.Equal(t, []string{"gateway", "gw-1"}, []string{kind, name})
	kind, name = subjects.ParseKey(subjects.ConfigKey)
	require.Equal(t, []string{"config", ""}, []string{kind, name})
	for n := range schema.Slot(schema.Slots) {
		got, ok := subjects.ParseSlotKey(subjects.SlotKey(n))
		require.True(t, ok)
		require.Equal(t, n, got)
	}
}

func TestParsersRefuse(t *testing.T) {
	for _, p := range []subjects.Prefix{"", "acme"} {
		front := strings.TrimSuffix(p.Revoke(), "revoke")
		for _, bad := range []string{"", "slot", "slot.1.2", "slot.1.2.touch.x", "slot.1.2.", "slot.256.2.touch", "slot.01.2.touch", "slot.+1.2.touch",
			"slot.-1.2.touch", "slot.1.02.touch", "slot.1.-2.touch", "slot.1.18446744073709551616.touch", "slot.x.2.touch", "slots.1.2.touch", "x.slot.1.2.touch"} {
			_, _, _, ok := p.ParseSlot(front + bad)
			require.False(t, ok, "%q", bad)
		}
		for _, bad := range []string{"", "authority.n.b", "authority.n.b.", "authority.n.b.lookup.x", "gateway.n.b.lookup"} {
			_, ok := p.ParseAuthority(front + bad)
			require.False(t, ok, "%q", bad)
		}
		for _, bad := range []string{"", "event.231", "event.230.alice", "event.231.alice.x", "event.0231.alice", "event.231.=YWxpY2U", "up.231.alice", "event.231.", "event.x.alice"} {
			_, ok := p.ParseEvent(front + bad)
			require.False(t, ok, "%q", bad)
		}
	}
	_, _, _, ok := subjects.Prefix("acme").ParseSlot("other.slot.1.2.touch")
	require.False(t, ok)
	_, _, _, ok = subjects.Prefix("acme").ParseSlot("acmeslot.1.2.touch")
	require.False(t, ok)
	_, ok = subjects.Prefix("").ParseChanged("presence.lookup")
	require.False(t, ok)
	for _, bad := range []string{"config", "slot", "slot.", "slot.256", "slot.007", "slot.1.2", "authority.1"} {
		_, ok := subjects.ParseSlotKey(bad)
		require.False(t, ok, "%q", bad)
	}
}

func TestTokens(t *testing.T) {
	for uid, want := range map[schema.UID]subjects.Token{
		"alice":         "alice",
		"A-Z_09":        "A-Z_09",
		"a.b":           "=YS5i",
		"=YS5i":         "=PVlTNWk",
		"a b":           "=YSBi",
		"🚀":             "=8J-agA",
		"alice@x.org":   "=YWxpY2VAeC5vcmc",
		"\u00bf\u00ff?": "=wr_Dvz8",
	} {
		require.Equal(t, want, subjects.TokenOf(uid))
		got, err := want.UID()
		require.NoError(t, err)
		require.Equal(t, uid, got)
	}
	for _, bad := range []subjects.Token{"", "=", "a.b", "a b", "é", "=YWxpY2U", "=YS5i=", "=YS5j\n", "=YS5!", "=YS+i", "=CQ", "=_w", subjects.Token(strings.Repeat("x", 257))} {
		_, err := bad.UID()
		require.ErrorContains(t, err, "uid token", "%q", bad)
	}
	_, err := subjects.Token("=YS5").UID() // bits behind the last byte
	require.Error(t, err)
}

var anyUID = rapid.Custom(func(t *rapid.T) schema.UID {
	return schema.UID(rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return !unicode.IsControl(r) }), 1, -1, schema.MaxUID).Draw(t, "uid"))
})

func TestTokenIsOneToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uid := anyUID.Draw(t, "uid")
		token := subjects.TokenOf(uid)
		require.Regexp(t, `^=?[A-Za-z0-9_-]+$`, string(token))
		back, err := token.UID()
		require.NoError(t, err)
		require.Equal(t, uid, back)
		require.Equal(t, plainSlot(uid), subjects.SlotOf(uid))
	})
}

// plainSlot says it in the words of the doc.
func plainSlot(u schema.UID) schema.Slot {
	token := string(u)
	if strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		token = "=" + base64.RawURLEncoding.EncodeToString([]byte(u))
	}
	h := fnv.New32a()
	fmt.Fprint(h, token)
	return schema.Slot(h.Sum32() % 256)
}

func TestSlotOfTakesNoMemory(t *testing.T) {
	for _, uid := range []schema.UID{"alice", "a@b", schema.UID(strings.Repeat("x", 256)), schema.UID(strings.Repeat("é", 128))} {
		require.Zero(t, testing.AllocsPerRun(100, func() { subjects.SlotOf(uid) }), "%q", uid)
	}
}

func BenchmarkSlotOf(b *testing.B) {
	for name, uid := range map[string]schema.UID{"word": "user-0012345", "other": "someone@example.com"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				subjects.SlotOf(uid)
			}
		})
	}
}

func BenchmarkSlotSubject(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		subjects.Prefix("").Slot(17, 1790000000123, subjects.Touch)
	}
}

// Whatever a parser takes is what its builder gives.
func FuzzParse(f *testing.F) {
	p := subjects.Prefix("")
	for _, s := range []string{p.Slot(17, 5, subjects.Touch), p.Event("alice"), p.Up("a b"), p.Authority(authority, subjects.Lookup), "presence.changed.slot.17", subjects.SlotKey(9)} {
		f.Add("", s)
		f.Add("acme.eu", "acme.eu."+s)
	}
	f.Fuzz(func(t *testing.T, prefix, subject string) {
		p := subjects.Prefix(prefix)
		if p.Check() != nil {
			return
		}
		if s, fence, op, ok := p.ParseSlot(subject); ok {
			require.Equal(t, subject, p.Slot(s, fence, op))
		}
		if uid, ok := p.ParseEvent(subject); ok {
			require.NoError(t, uid.Check())
			require.Equal(t, subject, p.Event(uid))
		}
		if uid, ok := p.ParseUp(subject); ok {
			require.Equal(t, subject, p.Up(uid))
		}
		if op, ok := p.ParseAuthority(subject); ok {
			require.True(t, strings.HasSuffix(subject, "."+string(op)))
		}
		if key, ok := p.ParseChanged(subject); ok {
			require.True(t, strings.HasSuffix(subject, key))
		}
		if slot, ok := subjects.ParseSlotKey(subject); ok {
			require.Equal(t, subject, subjects.SlotKey(slot))
		}
		if uid, err := subjects.Token(subject).UID(); err == nil {
			require.Equal(t, subjects.Token(subject), subjects.TokenOf(uid))
		}
	})
}

func TestAnswerable(t *testing.T) {
	for _, p := range []subjects.Prefix{"", "acme", "acme.eu-1"} {
		own := []string{
			p.Slot(1, 2, subjects.Touch), p.Authority(authority, subjects.Status), p.Push(gateway), p.Kick(gateway), p.Sessions(gateway),
			p.Revoke(), must(p.Fallback("a")), p.Event("alice"), p.SlotEvent(17), p.Up("alice"), p.ServiceCall("lookup"),
			strings.TrimSuffix(p.Changed(), ">") + "slot.17", p.SysDisconnect(), p.AuthConnect(), p.AuthWatch(),
		}
		for _, reply := range append(own, "", p.BucketKey("slot.17"), p.LastSeen("alice"), "$SYS.x", "$JS.ACK.x") {
			require.False(t, p.Answerable(reply), "%q: %s", p, reply)
		}
		for _, reply := range []string{"_INBOX.x.1", subjects.Inbox("backend") + ".x", "_R_.x", "mine.x", "slots", "acmes.x"} {
			require.True(t, p.Answerable(reply), "%q: %s", p, reply)
		}
	}
}
