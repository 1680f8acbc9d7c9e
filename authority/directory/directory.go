package directory

import (
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Settings are a directory's rules; zero fields take their defaults.
type Settings struct {
	Policy      Policy        // default levels
	MaxSessions int           // of one uid; default 32
	TTL         time.Duration // a route lives that long without a touch; default 90 s
	Conflict    time.Duration // after which a conflict ends without proof; default 2 s
	Login       time.Duration // the most that a pending login lives; default 5 s
	Random      func() uint64 // of tokens; default math/rand/v2
}

// Directory is the directory of one slot in one tenure. It is used by one goroutine at a time.
type Directory struct {
	slot       schema.Slot
	fence      schema.Revision
	settings   Settings
	rebuilding bool
	k, n       uint64
	users      map[schema.UID][]schema.Route
}

// New makes an empty directory.
func New(slot schema.Slot, fence schema.Revision, settings Settings) *Directory {
	return &Directory{slot: slot, fence: fence, settings: settings, users: map[schema.UID][]schema.Route{}}
}

// Configure changes the rules while the directory runs.
func (d *Directory) Configure(settings Settings) { d.settings = settings }

// Rebuilding says whether the slot is being rebuilt: nothing is published meanwhile.
func (d *Directory) Rebuilding(on bool) {
	if d.rebuilding && !on {
		d.k++ // the stamp of "rebuilt"
	}
	d.rebuilding = on
}

// Stamp is the stamp of the latest event.
func (d *Directory) Stamp() schema.Stamp { return schema.Stamp{Fence: d.fence, K: d.k} }

// Routes counts the committed routes of living owners.
func (d *Directory) Routes() int { return 0 }

// Users counts the uids that have a committed route.
func (d *Directory) Users() int { return len(d.users) }

// Lookup appends the committed routes of living owners.
func (d *Directory) Lookup(_ time.Time, uid schema.UID, into []schema.Route) []schema.Route {
	return append(into, d.users[uid]...)
}

// Register asks for a route.
func (d *Directory) Register(_ time.Time, head schema.SlotHead, l schema.Login) (schema.LoginResult, []schema.Event) {
	r := l.Route
	r.Owner = head.From
	d.n++
	r.Order = schema.Order{Fence: d.fence, N: d.n}
	d.users[r.UID] = append(d.users[r.UID], r)
	return schema.LoginResult{Code: schema.CodeOK, Order: r.Order}, nil
}

// Commit makes a pending login visible.
func (d *Directory) Commit(time.Time, schema.SlotHead, schema.CommitEntry) (schema.LoginResult, []schema.Event) {
	return schema.LoginResult{Code: schema.CodeDeadToken}, nil
}

// Unregister ends a session.
func (d *Directory) Unregister(_ time.Time, head schema.SlotHead, e schema.Leave) (schema.Code, []schema.Event) {
	d.users[e.UID] = slices.DeleteFunc(d.users[e.UID], func(r schema.Route) bool {
		return r.Owner == head.From && r.Session == e.Session
	})
	return schema.CodeOK, nil
}

// Touch renews the routes of sessions that have shown life, and names the exceptions.
func (d *Directory) Touch(time.Time, schema.SlotHead, []schema.Touched) []schema.TouchException {
	return nil
}

// Sync takes in the active sessions of a gateway.
func (d *Directory) Sync(_ time.Time, _ schema.SlotHead, routes []schema.Route) ([]schema.SyncVerdict, []schema.Loser, []schema.Event) {
	return make([]schema.SyncVerdict, len(routes)), nil, nil
}

// Remove takes out routes that their owner disowned.
func (d *Directory) Remove(time.Time, []schema.Disowned) (removed int, _ []schema.Event) {
	return 0, nil
}

// Gone tells that a gateway boot is gone.
func (d *Directory) Gone(time.Time, schema.Process) []schema.Event { return nil }

// Expire does a bounded amount of housekeeping; more says that some is left.
func (d *Directory) Expire(time.Time) (events []schema.Event, more bool) { return nil, false }

// Explain tells all that is held of a uid.
func (d *Directory) Explain(time.Time, schema.UID) (routes []schema.ExplainedRoute, tombs []schema.ExplainedTomb, refusals []schema.ExplainedNo) {
	return nil, nil, nil
}

// Counts tells the sessions of each gateway node by flag.
func (d *Directory) Counts() []schema.NodeCount { return nil }
