package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

const (
	// seenAtOnce is how many users' entries are read side by side.
	seenAtOnce = 64
	// seenWithin bounds the reading of all of them.
	seenWithin = time.Second
)

// Seen is when a user was last there.
type Seen struct {
	UID   schema.UID
	At    time.Time    // when the last session went; zero where nothing is known
	Stamp schema.Stamp // of the offline event
	Err   error        // that could not be found out: ErrNotKept, or the bucket was not in reach
}

// LastSeen tells when users were last there, in the order of uids: as far as the bucket last_seen
// knows, which has an entry of who was said to be offline since it is kept, for as long as it keeps
// it. Who is online may have one of an earlier time. It reads 64 at a time and takes a second at the
// most; what could not be read is said user by user. The error is schema.ErrBad for a uid that is
// none, or says that the mesh can never be asked.
func (d *Delivery) LastSeen(ctx context.Context, uids []schema.UID) ([]Seen, error) {
	if err := checkUIDs(uids); err != nil {
		return nil, err
	}
	seen := make([]Seen, len(uids))
	for i, u := range uids {
		seen[i].UID = u
	}
	m, err := d.open(ctx)
	switch {
	case errors.Is(err, ErrClosed), errors.Is(err, schema.ErrConfig):
		return nil, err
	case err == nil && !m.view.Config().LastSeen:
		err = ErrNotKept
	}
	if err != nil {
		for i := range seen {
			seen[i].Err = err
		}
	} else {
		d.readSeen(ctx, seen)
	}
	d.meter.sawLast(seen)
	return seen, nil
}

// readSeen reads all entries. The first failure is everybody's who has not been read by then.
func (d *Delivery) readSeen(ctx context.Context, seen []Seen) {
	within, cancel := context.WithTimeoutCause(ctx, seenWithin, errSeenLate)
	defer cancel()
	ctx, fail := context.WithCancelCause(within)
	defer fail(nil)
	next := make(chan *Seen)
	var reading sync.WaitGroup
	for range min(seenAtOnce, len(seen)) {
		reading.Go(func() {
			for s := range next {
				if s.Err = d.readOne(ctx, s); s.Err != nil {
					fail(s.Err)
				}
			}
		})
	}
	for i := range seen {
		next <- &seen[i]
	}
	close(next)
	reading.Wait()
}

// errSeenLate is returned when the bucket did not answer in time. A server says nothing to who may not read.
var errSeenLate = fmt.Errorf("read last seen: no answer within %v, or this user may not read it", seenWithin)

// errNoSeen is returned when nobody answers for the bucket.
var errNoSeen = errors.New("read last seen: its bucket is not there, or JetStream is out of reach: rollcall setup --last-seen 720h makes it")

func (d *Delivery) readOne(ctx context.Context, s *Seen) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m, err := d.nc.RequestWithContext(ctx, d.s.prefix.LastSeenGet(s.UID), nil)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return errNoSeen
	}
	if err != nil {
		return fmt.Errorf("read last seen: %w", err)
	}
	if status := m.Header.Get("Status"); status != "" {
		if status == "404" {
			return nil
		}
		return fmt.Errorf("read last seen: the server says %s %s", status, m.Header.Get("Description"))
	}
	if m.Header.Get("KV-Operation") != "" {
		return nil // deleted by hand
	}
	var entry schema.LastSeen
	if err := json.Unmarshal(m.Data, &entry); err != nil {
		return nil // written by hand: nothing is known
	}
	s.At, s.Stamp = entry.At, entry.Stamp
	return nil
}

// lastSeen gives what is known of those found who are offline, by their places.
func (s *Service) lastSeen(ctx context.Context, found []Found) (map[int]Seen, error) {
	var at []int
	var uids []schema.UID
	for i := range found {
		if found[i].State == schema.Offline {
			at, uids = append(at, i), append(uids, found[i].UID)
		}
	}
	if len(uids) == 0 {
		return nil, nil
	}
	seen, err := s.d.LastSeen(ctx, uids)
	if err != nil {
		return nil, err
	}
	by := make(map[int]Seen, len(at))
	for n, i := range at {
		by[i] = seen[n]
	}
	return by, nil
}

// show puts it into the answer.
func (s Seen) show(u *schema.UserReply) {
	if !s.At.IsZero() {
		u.LastSeen = s.At.Format(time.RFC3339Nano)
	}
	if s.Err != nil {
		u.LastSeenWhy = s.Err.Error()
	}
}
