package app

import (
	"slices"
	"sync"

	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/schema"
)

// locals are the gateways of this process, for the Delivery beside them. They come and go with
// their roles.
type locals struct {
	mu   sync.RWMutex
	list []*gateway.Gateway
}

// add makes a gateway one of them until remove is called.
func (l *locals) add(g *gateway.Gateway) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(slices.Clone(l.list), g)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.list = slices.DeleteFunc(slices.Clone(l.list), func(o *gateway.Gateway) bool { return o == g })
	}
}

// all gives those of the moment; the list is never changed.
func (l *locals) all() []*gateway.Gateway {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.list
}

// Find asks one after the other for a user's device.
func (l *locals) Find(uid schema.UID, device schema.DeviceID, flag schema.Flag) (r schema.Route, by schema.Target, ok bool) {
	for _, g := range l.all() {
		if r, by, ok = g.Find(uid, device, flag); ok {
			return r, by, true
		}
	}
	return r, by, false
}

// Push has the gateway do it that is addressed.
func (l *locals) Push(m *schema.Push) (results []schema.PushResult, acks <-chan []schema.PushResult, ok bool) {
	for _, g := range l.all() {
		if results, acks, ok = g.Push(m); ok {
			return results, acks, true
		}
	}
	return nil, nil, false
}
