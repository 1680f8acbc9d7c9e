package swarm_test

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// moment is a place in a run: in virtual time, and among all that processes have published. Of two
// moments of one instant the one of the lower seq came first.
type moment struct {
	at  time.Duration
	seq int
}

// trace keeps what the processes publish, as it leaves them. So an answer stands in it after what it
// tells was done, and a request before it is served.
type trace struct {
	begin time.Time

	mu   sync.Mutex
	list []published
}

type published struct {
	at time.Duration
	bubble.Published
}

func (t *trace) start() { t.begin = time.Now() }

func (t *trace) tap(p bubble.Published) {
	if !wanted(p.Subject) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, published{time.Since(t.begin), p})
}

// note puts a mark of the test's own into the trace.
func (t *trace) note(mark string) { t.tap(bubble.Published{Subject: mark}) }

func (t *trace) now() moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return moment{time.Since(t.begin), len(t.list)}
}

// marks begins what the test itself notes; bucketLost is the moment from which on the bucket is gone,
// and no key stands.
const (
	marks      = "swarm."
	bucketLost = marks + "bucket.lost"
)

// gatewayKeys begins the subjects on which gateways' keys are written.
var gatewayKeys = subjects.Prefix("").BucketKey(subjects.GatewayKey(""))

func wanted(subject string) bool {
	for _, p := range [...]string{"slot.", "kick.", "push.", "authority.", "_INBOX.", marks, gatewayKeys} {
		if strings.HasPrefix(subject, p) {
			return true
		}
	}
	return false
}

// event is one message of a trace, read.
type event struct {
	moment
	msg     schema.Message // nil: one of the two below
	request *event         // of an answer
	key     *keyWrite
	mark    string
}

// keyWrite is an attempt to write a gateway's key.
type keyWrite struct {
	node  schema.NodeID
	value schema.ProcessValue
}

// read makes sense of a trace. What is of no interest, or cannot be read, is left out.
func (t *trace) read() []event {
	t.mu.Lock()
	defer t.mu.Unlock()
	asked := map[string]*event{}          // by where the answer goes
	list := make([]event, 0, len(t.list)) // never grown: it is pointed into
	for i, p := range t.list {
		e := event{moment: moment{p.at, i}, request: asked[p.Subject]}
		if !e.read(p) {
			continue
		}
		list = append(list, e)
		if p.Reply != "" && e.msg != nil {
			asked[p.Reply] = &list[len(list)-1]
		}
	}
	return list
}

func (e *event) read(p published) bool {
	if strings.HasPrefix(p.Subject, marks) {
		e.mark = p.Subject
		return true
	}
	if node, ok := strings.CutPrefix(p.Subject, gatewayKeys); ok {
		e.key = &keyWrite{node: schema.NodeID(node)}
		return json.Unmarshal(p.Data, &e.key.value) == nil
	}
	if e.request != nil {
		e.msg = answerTo(e.request.msg)
	} else {
		e.msg = requestOn(p.Subject)
	}
	return e.msg != nil && schema.Unmarshal(p.Data, e.msg) == nil
}

func requestOn(subject string) schema.Message {
	none := subjects.Prefix("")
	_, _, op, _ := none.ParseSlot(subject)
	ask, _ := none.ParseAuthority(subject)
	switch {
	case op == subjects.Register:
		return new(schema.Register)
	case op == subjects.Commit:
		return new(schema.Commit)
	case op == subjects.Unregister:
		return new(schema.Unregister)
	case op == subjects.Touch:
		return new(schema.Touch)
	case op == subjects.Sync:
		return new(schema.Sync)
	case ask == subjects.Lookup:
		return new(schema.Lookup)
	case strings.HasPrefix(subject, "kick."):
		return new(schema.Kick)
	case strings.HasPrefix(subject, "push."):
		return new(schema.Push)
	}
	return nil
}

func answerTo(m schema.Message) schema.Message {
	switch m.(type) {
	case *schema.Register:
		return new(schema.RegisterAnswer)
	case *schema.Commit:
		return new(schema.CommitAnswer)
	case *schema.Unregister:
		return new(schema.UnregisterAnswer)
	case *schema.Touch:
		return new(schema.TouchAnswer)
	case *schema.Sync:
		return new(schema.SyncAnswer)
	case *schema.Lookup:
		return new(schema.LookupAnswer)
	case *schema.Kick:
		return new(schema.KickAnswer)
	case *schema.Push:
		return new(schema.PushAnswer)
	}
	return nil
}
