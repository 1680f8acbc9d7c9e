package ledger

import (
	"fmt"
	"sync"

	"github.com/rollcall-mesh/rollcall/schema"
)

// told is what a sender was told of one message to one session.
type told struct {
	n      int // the message's number, by user
	result schema.PushResult
}

// book is what the senders were told, by session.
type book struct {
	mu       sync.Mutex
	sessions map[schema.SessionID][]told
}

func (b *book) note(s schema.SessionID, t told) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions[s] = append(b.sessions[s], t)
}

// list is what one session got.
type list struct {
	session schema.SessionID
	mu      sync.Mutex
	got     []int
	left    int  // the message that told it to leave; 0: none
	stays   bool // to the end
}

// compare tells what is wrong with what a session got, by what its sender was told. Both are in the
// order in which they came about.
func compare(sent []told, l *list) error {
	rest := sent
	for i, n := range l.got {
		for len(rest) > 0 && rest[0].n < n {
			if rest[0].result.Reached() {
				return fmt.Errorf("%d was reported %s and did not come, although %d did", rest[0].n, rest[0].result, n)
			}
			rest = rest[1:]
		}
		switch {
		case len(rest) == 0 || rest[0].n != n:
			return fmt.Errorf("%d came, as message %d, and was not reported, or before", n, i)
		case !rest[0].result.Reached() && rest[0].result != schema.PushUnknown:
			return fmt.Errorf("%d came and was reported %s", n, rest[0].result)
		}
		rest = rest[1:]
	}
	for _, t := range rest {
		due := t.result == schema.PushAcked || t.result.Reached() && (l.stays || t.n <= l.left)
		if due {
			return fmt.Errorf("%d was reported %s and did not come", t.n, t.result)
		}
	}
	return nil
}
