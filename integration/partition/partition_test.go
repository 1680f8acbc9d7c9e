package partition

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mapping has the server compute the slot of what is published on by.<token>.
const mapping = `mappings: { "by.*": "in.{{partition(256,1)}}.{{wildcard(1)}}" }`

const count = 10_000

// oddUIDs are those that could go wrong: what subjects are made of, and every length.
func oddUIDs() []schema.UID {
	odd := []schema.UID{
		".", "..", "a.b", "a.b.c", ".a", "a.", "*", ">", "a.*", "a.>", "$SYS", "$JS.API", "_INBOX.x", "=", "==", "=YS5i", "-", "_",
		" ", "a b", " a", "a ", "alice@example.com", "+49 171 000", "user/1", `a\b`, `"quoted"`, "{{partition(256,1)}}", "%s", "null", "0", "255", "256",
		"é", "Zoë", "日本語", "مرحبا", "🚀", "👩‍👩‍👧‍👦", "e\u0301", "\u00a0", "\u200b", "\ufeff", "\ufffd", "\U0010ffff",
	}
	for n := 1; n <= schema.MaxUID; n++ {
		odd = append(odd, schema.UID(strings.Repeat("x", n)), schema.UID(strings.Repeat(".", n)))
		if n%2 == 0 {
			odd = append(odd, schema.UID(strings.Repeat("é", n/2)))
		}
		if n%4 == 0 {
			odd = append(odd, schema.UID(strings.Repeat("🚀", n/4)))
		}
	}
	return odd
}

// uids gives count different ones: the odd ones, then plain numbers, mail addresses and runes.
func uids() []schema.UID {
	list := oddUIDs()
	seen := map[schema.UID]bool{}
	for _, u := range list {
		seen[u] = true
	}
	random := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return !unicode.IsControl(r) && utf8.ValidRune(r) }), 1, -1, schema.MaxUID)
	for i := 0; len(list) < count; i++ {
		u := schema.UID(fmt.Sprintf("user-%d", i))
		switch i % 3 {
		case 1:
			u = schema.UID(fmt.Sprintf("user.%d@example.com", i))
		case 2:
			u = schema.UID(random.Example(i))
		}
		if !seen[u] && u.Check() == nil {
			seen[u] = true
			list = append(list, u)
		}
	}
	return list
}

func TestSlotIsTheServersPartition(t *testing.T) {
	list := uids()
	bubble.RunWith(t, bubble.Options{Config: mapping}, func(t *testing.T, s *bubble.Server) {
		nc, _ := s.Dial("partition")
		got := make(chan *nats.Msg, count)
		_, err := nc.ChanSubscribe("in.*.*", got)
		require.NoError(t, err)
		for _, u := range list {
			require.NoError(t, nc.Publish("by."+string(subjects.TokenOf(u)), []byte(u)))
		}
		require.NoError(t, nc.Flush())

		escaped, slots := 0, map[schema.Slot]int{}
		for _, u := range list {
			m := <-got
			require.Equal(t, string(u), string(m.Data))
			token := subjects.TokenOf(u)
			require.Equal(t, fmt.Sprintf("in.%d.%s", subjects.SlotOf(u), token), m.Subject, "%q", u)
			back, err := token.UID()
			require.NoError(t, err)
			require.Equal(t, u, back)
			slots[subjects.SlotOf(u)]++
			if token[0] == '=' {
				escaped++
			}
		}
		require.Greater(t, escaped, count/3, "tokens that begin with = are mapped as any other")
		require.Len(t, slots, schema.Slots)
	})
}

// The server partitions the token, not the uid: where they differ so may the slots. This is why
// everybody computes the slot from the token.
func TestPartitionIsOfTheToken(t *testing.T) {
	bubble.RunWith(t, bubble.Options{Config: mapping}, func(t *testing.T, s *bubble.Server) {
		nc, _ := s.Dial("partition")
		sub, err := nc.SubscribeSync("in.>")
		require.NoError(t, err)
		require.NotEqual(t, schema.Slot(193), subjects.SlotOf("é"))
		for raw, want := range map[string]string{
			"é":                                "in.193.é", // a server takes UTF-8 in a subject, at another slot
			string(subjects.TokenOf("é")):      fmt.Sprintf("in.%d.=w6k", subjects.SlotOf("é")),
			string(subjects.TokenOf("=w6k")):   fmt.Sprintf("in.%d.=PXc2aw", subjects.SlotOf("=w6k")),
			string(subjects.TokenOf("a.b")):    fmt.Sprintf("in.%d.=YS5i", subjects.SlotOf("a.b")),
			string(subjects.TokenOf("alice")):  "in.231.alice",
			string(subjects.TokenOf("user-1")): fmt.Sprintf("in.%d.user-1", subjects.SlotOf("user-1")),
		} {
			require.NoError(t, nc.Publish("by."+raw, nil))
			m, err := sub.NextMsgWithContext(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, m.Subject)
		}
	})
}

func TestRefusedUIDs(t *testing.T) {
	for _, u := range []schema.UID{"", schema.UID(strings.Repeat("x", schema.MaxUID+1)), schema.UID(strings.Repeat("é", schema.MaxUID/2) + "x"), "a\n", "\x00", "\xff"} {
		require.Error(t, u.Check(), "%q", u)
		_, err := subjects.TokenOf(u).UID()
		require.Error(t, err, "%q", u)
	}
}
