package directory

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what the scenarios of testdata really answer")

// TestScenarios runs testdata/*.txt: one operation a line, and indented below it all that it
// answers and the events that it gives. The forms of the operations are in script.run.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			got := newScript(t).play(string(want))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(want), got)
		})
	}
}

type script struct {
	t     *testing.T
	d     *Directory
	rules Settings
	now   time.Time
	out   strings.Builder
}

func newScript(t *testing.T) *script {
	s := &script{t: t, now: time.Unix(1_000_000, 0)}
	drawn := uint64(0)
	s.rules.Random = func() uint64 { drawn++; return drawn }
	s.d = New(17, 7, s.rules)
	return s
}

func (s *script) play(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") {
			continue // an answer
		}
		s.out.WriteString(line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			s.run(words[0], parseArgs(s.t, words[1:]))
		}
	}
	return s.out.String()
}

func (s *script) say(format string, args ...any) { fmt.Fprintf(&s.out, "  "+format+"\n", args...) }

func (s *script) run(op string, a args) {
	d := s.d
	switch op {
	case "settings": // policy=single max=2 ttl=90s grace=5s
		s.settings(a)
	case "wait": // 2s
		s.now = s.now.Add(a.duration(a.word(0)))
	case "rebuilding": // on | off
		d.Rebuilding(a.word(0) == "on")
		s.say("stamp %v", s.stamp(d.Stamp()))
	case "register": // g1.a 1 alice phone app/master seq=1 gen=0 resume=a:3 left=5s settled=0
		boot, num, _ := strings.Cut(a.key("resume"), ":")
		l := schema.Login{Route: a.route(), ResumeBoot: schema.BootID(boot), Left: 5 * time.Second}
		l.ResumeSession = schema.SessionNum(a.number(num))
		if left := a.key("left"); left != "" {
			l.Left = a.duration(left)
		}
		res, events := d.Register(s.now, a.head(), l)
		s.result(res)
		s.events(events)
	case "commit": // g1.a 1 alice 7.1.1 answered=g2.b:1 gone=g2.b:2 forced=g2.b:3
		res, events := d.Commit(s.now, a.head(), schema.CommitEntry{
			Session: schema.SessionNum(a.number(a.word(1))), UID: schema.UID(a.word(2)), Token: schema.CommitToken(a.word(3)), Ends: a.ends(),
		})
		s.result(res)
		s.events(events)
	case "unregister": // g1.a 1 alice seq=2 reason=kicked
		code, events := d.Unregister(s.now, a.head(), a.leave())
		s.say("%s", code)
		s.events(events)
	case "touch": // g1.a 1,2,3 idle=5s
		s.touch(a)
	case "sync": // g1.a 1 alice phone app/master seq=1 order=6.1 gen=0 age=1m idle=5s
		verdicts, losers, events := d.Sync(s.now, a.head(), []schema.Route{a.route()})
		s.say("%s", closing(verdicts[0].Code.String(), verdicts[0].Close))
		for _, l := range losers {
			s.say("loser %s:%d %s", process(l.Owner), l.Session, closing("", l.Close))
		}
		s.events(events)
	case "remove": // g1.a 1 alice seq=1
		r := a.route()
		n, events := d.Remove(s.now, []schema.Disowned{{UID: r.UID, Owner: r.Owner, Session: r.Session, Seq: r.Seq}})
		s.say("removed %d", n)
		s.events(events)
	case "gone": // g1.a
		s.events(d.Gone(s.now, a.head().From))
	case "expire":
		events, more := d.Expire(s.now)
		s.events(events)
		require.False(s.t, more)
	default:
		s.ask(op, a)
	}
}

// ask runs the operations that change nothing.
func (s *script) ask(op string, a args) {
	d := s.d
	switch op {
	case "lookup": // alice
		routes := d.Lookup(s.now, schema.UID(a.word(0)), nil)
		for _, r := range routes {
			s.say("%s:%d %s %s/%s order=%s seq=%d age=%v idle=%v ttl=%v", process(r.Owner), r.Session, device(r.Device), r.Flag, r.Level, order(r.Order), r.Seq, r.Age, r.Idle, r.TTL)
		}
		if len(routes) == 0 {
			s.say("none")
		}
	case "explain": // alice
		routes, tombs, refusals := d.Explain(s.now, schema.UID(a.word(0)))
		for _, r := range routes {
			s.say("%s %s %s %s/%s order=%s seq=%d connected=%dms active=%dms ttl=%dms", r.State, r.Node, r.Session, r.Flag, r.Level, order(r.Order), r.Seq, r.ConnectedMS, r.ActiveMS, r.TTLMS)
		}
		for _, x := range tombs {
			s.say("%s %s %s seq=%d", x.Kind, x.Node, x.Session, x.Seq)
		}
		for _, x := range refusals {
			s.say("refused %s %s %s %dms ago: %s", x.Node, x.Session, x.Code, x.AgoMS, x.Why)
		}
	case "counts":
		for _, n := range d.Counts() {
			s.say("%s %s %d", n.Node, n.Flag, n.Sessions)
		}
		s.say("routes %d users %d", d.Routes(), d.Users())
	case "records": // how many are held, of whatever kind
		s.say("%d", d.sessions.used)
	default:
		s.t.Fatalf("unknown operation %q", op)
	}
}

func (s *script) settings(a args) {
	if name := a.key("policy"); name != "" {
		s.rules.Policy = policy(s.t, name)
	}
	if most := a.key("max"); most != "" {
		s.rules.MaxSessions = int(a.number(most))
	}
	if ttl := a.key("ttl"); ttl != "" {
		s.rules.TTL = a.duration(ttl)
	}
	if grace := a.key("grace"); grace != "" {
		s.rules.Grace = a.duration(grace)
	}
	s.d.Configure(s.rules)
}

func (s *script) touch(a args) {
	var touched []schema.Touched
	for num := range strings.SplitSeq(a.word(1), ",") {
		t := schema.Touched{Session: schema.SessionNum(a.number(num))}
		if idle := a.key("idle"); idle != "" {
			t.Idle = a.duration(idle)
		}
		touched = append(touched, t)
	}
	exceptions := s.d.Touch(s.now, a.head(), touched)
	for _, x := range exceptions {
		s.say("%d %s", x.Session, closing(x.Code.String(), x.Close))
	}
	if len(exceptions) == 0 {
		s.say("ok")
	}
}

func (s *script) result(r schema.LoginResult) {
	text := closing(r.Code.String(), r.Close)
	if r.Code == schema.CodeOK {
		text += " order=" + order(r.Order)
	}
	if r.Token != "" {
		text += " token=" + string(r.Token)
	}
	if r.RetryAfter > 0 {
		text += " retry=" + r.RetryAfter.String()
	}
	if r.Why != "" {
		text += ": " + r.Why
	}
	s.say("%s", text)
	for _, c := range r.Conflicts {
		s.say("conflict %s:%d %s %s forced=%v", process(c.Owner), c.Session, device(c.Device), closing("", c.Close), c.Forced)
	}
}

func (s *script) events(events []schema.Event) {
	for _, e := range events {
		num := strings.TrimPrefix(string(e.Route.Session), string(e.Route.Boot)+".")
		s.say("event %s %s %s.%s:%s %s left=%d stamp=%s %s", e.Type, e.UID, e.Route.Node, e.Route.Boot, num, device(e.Route.Device), e.Left, s.stamp(e.Stamp), e.Reason)
	}
}

func (s *script) stamp(x schema.Stamp) string { return fmt.Sprintf("%d.%d", x.Fence, x.K) }
func order(x schema.Order) string             { return fmt.Sprintf("%d.%d", x.Fence, x.N) }
func process(p schema.Process) string         { return string(p.Node) + "." + string(p.Boot) }

func device(d schema.DeviceID) string {
	if d == "" {
		return "-"
	}
	return string(d)
}

func closing(text string, code schema.CloseCode) string {
	if code != 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s %d", text, uint16(code)))
	}
	return text
}

// args are the words of a line, and what it says as key=value.
type args struct {
	t     *testing.T
	words []string
	keys  map[string]string
}

func parseArgs(t *testing.T, fields []string) args {
	a := args{t: t, keys: map[string]string{}}
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok {
			a.keys[k] = v
		} else {
			a.words = append(a.words, f)
		}
	}
	return a
}

func (a args) word(n int) string {
	if n >= len(a.words) {
		return ""
	}
	return a.words[n]
}

func (a args) key(k string) string { return a.keys[k] }

func (a args) number(s string) uint64 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	require.NoError(a.t, err)
	return n
}

func (a args) duration(s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	require.NoError(a.t, err)
	return d
}

func (a args) process(s string) schema.Process {
	node, boot, ok := strings.Cut(s, ".")
	require.True(a.t, ok, "%q is no node.boot", s)
	return schema.Process{Node: schema.NodeID(node), Boot: schema.BootID(boot)}
}

func (a args) head() schema.SlotHead {
	return schema.SlotHead{From: a.process(a.word(0)), Settled: schema.OwnerSeq(a.number(a.key("settled")))}
}

func (a args) route() schema.Route {
	flag, level, _ := strings.Cut(a.word(4), "/")
	l, err := schema.ParseLevel(level)
	require.NoError(a.t, err)
	fence, n, _ := strings.Cut(a.key("order"), ".")
	r := schema.Route{
		Owner: a.process(a.word(0)), Session: schema.SessionNum(a.number(a.word(1))), UID: schema.UID(a.word(2)),
		Flag: schema.Flag(flag), Level: l, Listener: "ws", Gen: schema.Generation(a.number(a.key("gen"))),
		Seq: schema.OwnerSeq(a.number(a.key("seq"))), Order: schema.Order{Fence: schema.Revision(a.number(fence)), N: a.number(n)},
		Age: a.duration(a.key("age")), Idle: a.duration(a.key("idle")),
	}
	if dev := a.word(3); dev != "-" {
		r.Device = schema.DeviceID(dev)
	}
	return r
}

func (a args) ends() (ends []schema.End) {
	for _, how := range []schema.Ending{schema.EndAnswered, schema.EndGone, schema.EndForced} {
		for one := range strings.SplitSeq(a.key(how.String()), ",") {
			if p, num, ok := strings.Cut(one, ":"); ok {
				ends = append(ends, schema.End{Owner: a.process(p), Session: schema.SessionNum(a.number(num)), How: how})
			}
		}
	}
	return ends
}

func (a args) leave() schema.Leave {
	e := schema.Leave{
		Session: schema.SessionNum(a.number(a.word(1))), UID: schema.UID(a.word(2)),
		Seq: schema.OwnerSeq(a.number(a.key("seq"))), Reason: schema.ReasonLeave,
	}
	if why := a.key("reason"); why != "" {
		require.NoError(a.t, e.Reason.UnmarshalText([]byte(why)))
	}
	return e
}
