package gateway

import (
	"net"
	"sync"
)

// door counts who is in and who is still on the doorstep, and knows all connections.
type door struct {
	limits Limits // static

	mu         sync.Mutex
	inside     int            // connections, from the handshake on
	handshakes int            // of them: not logged in yet
	byAddr     map[string]int // of the handshakes, but for loopback, where proxies are
	all        map[*session]struct{}
	closed     bool
	serving    sync.WaitGroup // one a connection kept
}

// enter takes a place for a handshake, which settle gives back: it may be called more than once.
func (d *door) enter(remote string) (settle func(), why refusal) {
	host, _, err := net.SplitHostPort(remote)
	if ip := net.ParseIP(host); err != nil || ip != nil && ip.IsLoopback() {
		host = ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.inside >= d.limits.Sessions:
		return nil, refusedSessions
	case d.handshakes >= d.limits.Handshakes:
		return nil, refusedBusy
	case host != "" && d.byAddr[host] >= d.limits.HandshakesPerAddr:
		return nil, refusedAddr
	}
	if d.byAddr == nil {
		d.byAddr = make(map[string]int)
	}
	d.inside++
	d.handshakes++
	d.byAddr[host]++
	return sync.OnceFunc(func() { d.settled(host) }), ""
}

func (d *door) settled(host string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handshakes--
	if d.byAddr[host]--; d.byAddr[host] == 0 {
		delete(d.byAddr, host)
	}
}

// keep notes an upgraded connection, which is then served; false where the door has been closed
// meanwhile.
func (d *door) keep(s *session) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	if d.all == nil {
		d.all = make(map[*session]struct{})
	}
	d.all[s] = struct{}{}
	d.serving.Add(1)
	return true
}

// leave gives back the place of a connection that was not kept.
func (d *door) leave(s *session) {
	s.cancel()
	s.settle()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
}

// forget ends a connection that was kept.
func (d *door) forget(s *session) {
	d.leave(s)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, s)
	d.serving.Done()
}

// everybody gives all connections; with last, no more are kept.
func (d *door) everybody(last bool) []*session {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = d.closed || last
	list := make([]*session, 0, len(d.all))
	for s := range d.all {
		list = append(list, s)
	}
	return list
}
