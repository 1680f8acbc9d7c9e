package bubble

import (
	"slices"
	"time"
)

// Direction is which way a message goes, as the process sees it.
type Direction uint8

// The directions.
const (
	Out Direction = iota // published by the process
	In                   // delivered to the process
)

// Rule is a fault for messages of one direction and subject. Remove ends it.
type Rule struct {
	l         *Link
	direction Direction
	pattern   string
	act       func(f frame, deliver func([]byte))

	// guarded by Link.mu
	left int // how many more; below 0 = all
	hits int
}

// Lose loses the next times messages that the process publishes to subjects of pattern (lost
// before it arrives). times below 0 = until Remove.
func (l *Link) Lose(pattern string, times int) *Rule {
	return l.add(&Rule{direction: Out, pattern: pattern, left: times, act: func(frame, func([]byte)) {}})
}

// LoseIn loses messages on their way to the process.
func (l *Link) LoseIn(pattern string, times int) *Rule {
	return l.add(&Rule{direction: In, pattern: pattern, left: times, act: func(frame, func([]byte)) {}})
}

// LoseAnswer lets the next times requests pass and loses their answers (lost after: failed, but
// persisted).
func (l *Link) LoseAnswer(pattern string, times int) *Rule {
	return l.answers(pattern, times, func(reply string) { l.LoseIn(reply, 1) })
}

// DelayAnswer lets the next times requests pass and holds their answers back for d, while others pass
// them.
func (l *Link) DelayAnswer(pattern string, times int, d time.Duration) *Rule {
	return l.answers(pattern, times, func(reply string) { l.DelayIn(reply, 1, d) })
}

// answers lets requests pass, and has befall do something to the answer that each will have.
func (l *Link) answers(pattern string, times int, befall func(reply string)) *Rule {
	return l.add(&Rule{direction: Out, pattern: pattern, left: times, act: func(f frame, deliver func([]byte)) {
		if f.reply != "" {
			befall(f.reply)
		}
		deliver(f.bytes)
	}})
}

// Duplicate sends the next times messages twice.
func (l *Link) Duplicate(pattern string, times int) *Rule {
	return l.add(&Rule{direction: Out, pattern: pattern, left: times, act: func(f frame, deliver func([]byte)) {
		deliver(f.bytes)
		deliver(f.bytes)
	}})
}

// Echo lets the next times messages pass, and sends each once more after d.
func (l *Link) Echo(pattern string, times int, d time.Duration) *Rule {
	return l.add(&Rule{direction: Out, pattern: pattern, left: times, act: func(f frame, deliver func([]byte)) {
		deliver(f.bytes)
		late(d)(f, deliver)
	}})
}

// Delay holds the next times messages back for d, while others pass them.
func (l *Link) Delay(pattern string, times int, d time.Duration) *Rule {
	return l.add(&Rule{direction: Out, pattern: pattern, left: times, act: late(d)})
}

// DelayIn holds messages to the process back for d, while others pass them.
func (l *Link) DelayIn(pattern string, times int, d time.Duration) *Rule {
	return l.add(&Rule{direction: In, pattern: pattern, left: times, act: late(d)})
}

func late(d time.Duration) func(frame, func([]byte)) {
	return func(f frame, deliver func([]byte)) {
		time.AfterFunc(d, func() { deliver(f.bytes) })
	}
}

// Then has f called once for the next message that the process publishes to a subject of pattern,
// just before it passes: for what must happen in between. f must not block.
func (l *Link) Then(pattern string, f func()) *Rule {
	return l.add(&Rule{direction: Out, pattern: pattern, left: 1, act: func(m frame, deliver func([]byte)) {
		f()
		deliver(m.bytes)
	}})
}

func (l *Link) add(r *Rule) *Rule {
	r.l = l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = append(l.rules, r)
	return r
}

// Remove ends the rule; messages already held back by it still arrive.
func (r *Rule) Remove() {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.rules = slices.DeleteFunc(r.l.rules, func(o *Rule) bool { return o == r })
}

// Mend ends all rules of the link; messages already held back by them still arrive.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = nil
}

// Hits is how many messages the rule has met.
func (r *Rule) Hits() int {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.hits
}

// pass applies the first rule that fits a message, and delivers what is left of it.
func (l *Link) pass(f frame, d Direction, deliver func([]byte)) {
	if r := l.match(f, d); r != nil {
		r.act(f, deliver)
		return
	}
	deliver(f.bytes)
}

func (l *Link) match(f frame, d Direction) *Rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range l.rules {
		if f.subject == "" || r.direction != d || !matches(r.pattern, f.subject) {
			continue
		}
		r.hits++
		if r.left--; r.left == 0 {
			l.rules = slices.Delete(l.rules, i, i+1)
		}
		return r
	}
	return nil
}
