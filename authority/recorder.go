package authority

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// Where JetStream looks for the id of a message, and for the one stream that is to take it.
const (
	idHeader     = nats.MsgIdHdr
	streamHeader = nats.ExpectedStreamHdr
)

// recordMetrics are those of one stream.
type recordMetrics struct {
	stored, again, lost prometheus.Counter
}

// recorder puts messages into a JetStream stream as its journal says. It belongs to one goroutine,
// which takes acks; only waiting may be asked by others.
type recorder struct {
	// static
	nc      *nats.Conn
	stream  string // the only one that is to take what is sent
	advice  string // what an operator does where the stream is not there
	log     *slog.Logger
	meter   recordMetrics
	replies string // the prefix of where acknowledgements come
	sub     *nats.Subscription
	acks    chan *nats.Msg // what does not fit is lost, and its entry sent again

	j    journal
	said bool // that the stream takes nothing

	waiting atomic.Int64 // entries not stored
}

func newRecorder(nc *nats.Conn, stream, advice string, log *slog.Logger, meter recordMetrics) (*recorder, error) {
	r := &recorder{
		nc: nc, stream: stream, advice: advice, log: log.With("stream", stream), meter: meter,
		replies: nc.NewInbox() + ".", acks: make(chan *nats.Msg, 2*maxFlying), j: newJournal(),
	}
	var err error
	if r.sub, err = nc.ChanSubscribe(r.replies+"*", r.acks); err != nil {
		return nil, fmt.Errorf("subscribe to acknowledgements of %s: %w", stream, err)
	}
	return r, nil
}

// count gives the entries that are not stored; it may be called by anyone, and on nil.
func (r *recorder) count() int64 {
	if r == nil {
		return 0
	}
	return r.waiting.Load()
}

// close forgets what is not stored.
func (r *recorder) close() {
	_ = r.sub.Unsubscribe() // or the connection is closed
	r.waiting.Store(0)
}

// add takes an entry. sent says that it has been published just now; false, false where there is no
// room for it.
func (r *recorder) add(now time.Time, e *entry) (sent, ok bool) {
	flies, ok := r.j.add(now, e)
	if !ok {
		r.meter.lost.Inc()
		return false, false
	}
	r.waiting.Store(int64(r.j.unstored()))
	return flies && r.send(now, e), true
}

// work sends what is due, and gives what it gives up.
func (r *recorder) work(now time.Time) (lost []*entry) {
	lost = r.j.expire(now)
	r.meter.lost.Add(float64(len(lost)))
	for _, e := range r.j.due(now) {
		r.send(now, e)
	}
	if r.j.stalled && !r.said {
		r.complain("no acknowledgement")
	}
	r.waiting.Store(int64(r.j.unstored()))
	return lost
}

// send publishes an entry once; what listens to its subject hears it, and the stream answers.
func (r *recorder) send(now time.Time, e *entry) bool {
	if !e.flying {
		return false // taken back since it was given
	}
	if e.tries > 1 {
		r.meter.again.Inc()
	}
	m := &nats.Msg{
		Subject: e.subject, Reply: r.replies + strconv.FormatUint(e.number, 10), Data: e.body,
		Header: nats.Header{idHeader: {e.id}, streamHeader: {r.stream}},
	}
	if err := r.nc.PublishMsg(m); err != nil {
		r.j.refused(now, e.number)
		r.complain(err.Error())
		return false
	}
	return true
}

// answers is where acknowledgements come; nil of a recorder that is off.
func (r *recorder) answers() chan *nats.Msg {
	if r == nil {
		return nil
	}
	return r.acks
}

// takeAcks takes an answer, and those that have come behind it.
func (r *recorder) takeAcks(m *nats.Msg) {
	now := time.Now()
	r.ack(now, m)
	for range len(r.acks) {
		r.ack(now, <-r.acks)
	}
}

// ack takes the stream's answer.
func (r *recorder) ack(now time.Time, m *nats.Msg) {
	number, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, r.replies), 10, 64)
	if err != nil {
		return // nobody knows the inbox but the streams that were given it
	}
	if err := refusal(m); err != nil {
		r.j.refused(now, number)
		r.complain(err.Error())
		return
	}
	if r.j.stored(number) != nil {
		r.meter.stored.Inc()
	}
	if r.said {
		r.said = false
		r.log.Info("the stream takes messages again")
	}
}

// complain says once a stall what the matter is.
func (r *recorder) complain(why string) {
	if !r.said {
		r.said = true
		r.log.Error("the stream does not take what it should; it is tried again for a minute", "why", why, "if it was deleted", r.advice)
	}
}

var errNoStream = errors.New("no stream takes it, or JetStream is out of reach")

// refusal is what an answer says against its message.
func refusal(m *nats.Msg) error {
	if status := m.Header.Get("Status"); status != "" {
		return fmt.Errorf("%w (%s)", errNoStream, status)
	}
	var answer struct {
		Stream string `json:"stream"`
		Error  *struct {
			Code        int    `json:"code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("answer of the stream not read: %w", err)
	}
	if answer.Error != nil {
		return errors.New(cmp.Or(answer.Error.Description, strconv.Itoa(answer.Error.Code)))
	}
	return nil
}
