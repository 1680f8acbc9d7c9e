package swarm_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// person is a stubborn user of one device: it stays connected for as long as close codes let it,
// and when one has sent it away it rests, and comes again.
type person struct {
	// static
	someone
	r    *run
	n    int
	wake chan struct{} // 1: it may want to come

	mu     sync.Mutex
	dice   *dice
	wants  bool  // to be online
	now    *stay // nil: away
	last   schema.SessionID
	visits []*visit
	links  []*bubble.Link // of all its stays
}

func newPerson(r *run, n int, who someone) *person {
	p := &person{someone: who, r: r, n: n, wake: make(chan struct{}, 1), dice: newDice(r.seed, uint64(1000+n))}
	r.t.Cleanup(p.unplug)
	bubble.Go(r.t, p.live)
	return p
}

// live runs one stay after the other.
func (p *person) live(ctx context.Context) error {
	for ctx.Err() == nil {
		s := p.begin(ctx)
		if s == nil {
			select {
			case <-p.wake:
			case <-ctx.Done():
			}
			continue
		}
		err := s.client.Run(s.ctx)
		p.finish(s)
		if errors.Is(err, client.ErrStopped) {
			p.rest(ctx)
		}
	}
	return nil
}

// begin gives the next stay; nil where the person is to be away.
func (p *person) begin(ctx context.Context) *stay {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wants {
		return nil
	}
	s := newStay(ctx, p)
	p.now, p.links = s, append(p.links, s.link)
	return s
}

func (p *person) finish(s *stay) {
	s.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = nil
}

// rest waits before the person comes again, unless the plan says that it does now; once all is calm, it
// does not.
func (p *person) rest(ctx context.Context) {
	p.mu.Lock()
	d := p.dice.between(500*time.Millisecond, 8*time.Second)
	p.mu.Unlock()
	select {
	case <-time.After(d):
	case <-p.wake:
	case <-ctx.Done():
	}
	if p.r.quiet.Load() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wants = false
	}
}

// unplug ends what connections have been left open, at the very end.
func (p *person) unplug() {
	for _, l := range p.links {
		l.Reset()
	}
}

// come has the person want to be online.
func (p *person) come() {
	p.mu.Lock()
	p.wants = true
	there := p.now != nil
	p.mu.Unlock()
	if there {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// leave ends the person's stay.
func (p *person) leave(how ending) {
	p.mu.Lock()
	p.wants = false
	s := p.now
	if s == nil || s.gone {
		p.mu.Unlock()
		return
	}
	s.gone = true
	s.closeLocked(schema.CloseBye)
	p.mu.Unlock()
	if how != goodbye {
		s.link.Cut()
	}
	if how == killed {
		s.link.Reset()
	}
	s.cancel()
}

// staying gives the stay of the moment; nil while away.
func (p *person) staying() *stay {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// blip breaks the person's connection.
func (p *person) blip() {
	if s := p.staying(); s != nil {
		s.link.Reset()
	}
}

func (p *person) silence(begins bool) {
	if s := p.staying(); s != nil {
		s.silence(begins)
	}
}

// open gives the session that the person holds, if any, and whether it is trying to get one.
func (p *person) open() (v *visit, trying bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.now; s != nil && !s.gone {
		return s.visit, s.visit == nil
	}
	return nil, false
}
