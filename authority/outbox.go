package authority

import (
	"sync"

	"github.com/rollcall-mesh/rollcall/schema"
)

// maxEvents bounds the events that wait to be published. When it is full, what comes is dropped
// and counted, and the slot's watchers are told to look up again as soon as there is room.
const maxEvents = 1 << 17

// outbox holds events in the order of their stamps until the publisher takes them: a slot's lock
// is never held across the network.
type outbox struct {
	wake chan struct{} // 1: there is something to take

	mu     sync.Mutex
	events []schema.Event
	lossy  map[schema.Slot]schema.Stamp // slots of which events were dropped
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), lossy: map[schema.Slot]schema.Stamp{}}
}

// add takes events; it returns how many it had to drop.
func (o *outbox) add(events []schema.Event) (dropped int) {
	if len(events) == 0 {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	room := min(len(events), maxEvents-len(o.events))
	o.events = append(o.events, events[:room]...)
	for _, e := range events[room:] {
		o.lossy[e.Slot] = e.Stamp
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return len(events) - room
}

// len counts the events that wait.
func (o *outbox) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.events)
}

func (o *outbox) take() []schema.Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	events := o.events
	o.events = nil
	for slot, stamp := range o.lossy {
		events = append(events, schema.Event{Type: schema.EventRebuilt, Slot: slot, Stamp: stamp})
	}
	clear(o.lossy)
	return events
}

func (w *Worker) emit(events []schema.Event) {
	w.meter.eventsDropped.Add(float64(w.out.add(events)))
}
