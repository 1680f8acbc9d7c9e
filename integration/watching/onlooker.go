package watching

import (
	"fmt"
	"slices"
	"sync"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Onlooker is a client, or a backend, that keeps what it is told of users, and what it must not be.
type Onlooker struct {
	name   string
	steady map[schema.UID]schema.UserState

	mu       sync.Mutex
	seen     map[schema.UID]schema.WatchedUser
	frames   int
	users    int      // in them
	back     []string // where a stamp went back
	invented []string // where a user who stayed was told to have gone, or the reverse
}

// New makes an onlooker. steady has users who are in one state throughout.
func New(name string, steady map[schema.UID]schema.UserState) *Onlooker {
	return &Onlooker{name: name, steady: steady, seen: make(map[schema.UID]schema.WatchedUser)}
}

// Take takes what the onlooker is told at a time.
func (o *Onlooker) Take(users ...schema.WatchedUser) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frames++
	o.users += len(users)
	for _, u := range users {
		before := o.seen[u.UID]
		if before.Stamp != nil && u.Stamp != nil && u.Stamp.Compare(*before.Stamp) < 0 {
			o.back = append(o.back, fmt.Sprintf("%s: %s was told %v after %v", o.name, u.UID, *u.Stamp, *before.Stamp))
		}
		if keeps := string(o.steady[u.UID]); keeps != "" && u.State != keeps && u.State != string(schema.Unknown) {
			o.invented = append(o.invented, fmt.Sprintf("%s: %s was told %s (%s)", o.name, u.UID, u.State, u.Reason))
		}
		if u.Stamp == nil { // unknown has none, and does not end the order
			u.Stamp = before.Stamp
		}
		o.seen[u.UID] = u
	}
}

// All reports whether something holds of each of users as the onlooker sees them.
func (o *Onlooker) All(uids []schema.UID, is func(schema.WatchedUser) bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(uids, func(u schema.UID) bool { return !is(o.seen[u]) })
}

// wrongLocked gives where the onlooker's view is not what was found.
func (o *Onlooker) wrongLocked(found []delivery.Found) (list []string) {
	for _, f := range found {
		var devices, seen []string
		for i := range f.Routes {
			devices = append(devices, string(f.Routes[i].Device))
		}
		u := o.seen[f.UID]
		for _, d := range u.Devices {
			seen = append(seen, string(d.Device))
		}
		slices.Sort(devices)
		slices.Sort(seen)
		if u.State != string(f.State) || !slices.Equal(devices, seen) {
			list = append(list, fmt.Sprintf("%s: %s is %s %v, seen %s %v", o.name, f.UID, f.State, devices, u.State, seen))
		}
	}
	return list
}
