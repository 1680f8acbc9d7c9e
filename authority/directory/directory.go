package directory

import (
	"hash/maphash"
	"math/rand/v2"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Settings are a directory's rules. Zero fields take their defaults.
type Settings struct {
	Policy      Policy        // default levels
	MaxSessions int           // of one uid; default 32
	TTL         time.Duration // how long a route lives without a touch; default 90 s
	Conflict    time.Duration // after which a conflict ends without proof; default 2 s
	Login       time.Duration // the longest that a login is pending; default 5 s
	Grace       time.Duration // how long an offline event is held back; 0 = not at all
	Random      func() uint64 // of tokens; default math/rand/v2.Uint64
}

func (s Settings) withDefaults() Settings {
	if s.Policy.name == "" {
		s.Policy, _ = ParsePolicy(defaultPolicy) // a name of the table
	}
	if s.MaxSessions == 0 {
		s.MaxSessions = 32
	}
	if s.TTL == 0 {
		s.TTL = 90 * time.Second
	}
	if s.Conflict == 0 {
		s.Conflict = 2 * time.Second
	}
	if s.Login == 0 {
		s.Login = 5 * time.Second
	}
	if s.Random == nil {
		s.Random = rand.Uint64
	}
	return s
}

// Directory is the directory of one slot in one tenure of an authority. One goroutine uses it at
// a time. The times given to it must not run backwards.
type Directory struct {
	// What a look-up reads stands together: of 256 directories the one that is asked is cold.
	seed    maphash.Seed
	base    time.Time // of all durations; the first time seen
	ttl     time.Duration
	users   index // by uid: the first record of each
	slab    slab
	owners  []owner // from 1
	classes classes

	// static
	slot  schema.Slot
	fence schema.Revision

	// rules and state, set from outside
	settings   Settings
	rebuilding bool

	// records and how else they are found
	sessions index // by owner and session: every record
	pendings map[uint32]*login
	named    map[uint32]time.Duration // committed records: when a token first named them
	damper   damper

	// owners and how they are found
	processes map[schema.Process]uint32
	lastOwner uint32
	lost      []uint32 // gone owners that may have records
	buried    []uint32 // gone owners without, the first to be forgotten first

	// counters
	lastOrder uint64 // under fence
	stamp     uint64 // under fence
	routes    int    // committed, of owners that are not gone
	online    int    // uids with a committed record

	wheel    wheel
	grace    grace
	refusals refusals
	existing []schema.Route // scratch: the visible routes of one uid
	indices  []uint32       // scratch: their records
}

// New makes the empty directory of a slot that was taken with fence.
func New(slot schema.Slot, fence schema.Revision, settings Settings) *Directory {
	d := &Directory{
		slot:      slot,
		fence:     fence,
		seed:      maphash.MakeSeed(),
		pendings:  map[uint32]*login{},
		named:     map[uint32]time.Duration{},
		owners:    make([]owner, 1),
		processes: map[schema.Process]uint32{},
	}
	d.Configure(settings)
	return d
}

// Configure changes the rules for what is decided from now on. Routes that stand keep standing.
func (d *Directory) Configure(settings Settings) {
	d.settings = settings.withDefaults()
	d.ttl = d.settings.TTL
}

// Rebuilding says whether gateways' syncs are still awaited. Meanwhile no event is given, and a
// policy that rejects new logins answers busy. The stamp moves on when a rebuild ends: it is then
// the stamp of the event "rebuilt".
func (d *Directory) Rebuilding(on bool) {
	if d.rebuilding && !on {
		d.stamp++
	}
	d.rebuilding = on
}

// Stamp is the stamp of the latest event, and so of a look-up answered now.
func (d *Directory) Stamp() schema.Stamp { return schema.Stamp{Fence: d.fence, K: d.stamp} }

// Routes counts the committed routes of owners that are not gone.
func (d *Directory) Routes() int { return d.routes }

// Users counts the uids that have a committed record: also one that has lapsed and was not yet freed,
// and not one whose offline is held back.
func (d *Directory) Users() int { return d.online }

// Lookup appends the visible routes of a uid, the latest first.
func (d *Directory) Lookup(now time.Time, uid schema.UID, into []schema.Route) []schema.Route {
	t := d.tick(now)
	for i := d.first(d.hashUID(uid), uid); i != 0; {
		r := d.slab.at(i)
		if r.state.out() {
			break // those that are out stand behind
		}
		if r.state == committed && !d.lapsed(r, t) {
			into = append(into, schema.Route{})
			d.route(r, t, &into[len(into)-1])
		}
		i = r.next
	}
	return into
}

// route fills in a record as it is seen from outside.
func (d *Directory) route(r *record, now time.Duration, out *schema.Route) {
	c := &d.classes.list[r.class]
	*out = schema.Route{
		UID: r.uid(), Owner: d.owners[r.owner].process, Session: r.session,
		Device: r.device(), Flag: c.flag, Level: c.level, Listener: c.listener,
		Gen: r.gen, Seq: r.seq, Order: r.order,
		Age: now - r.since, Idle: now - r.active, TTL: r.active + d.ttl - now,
	}
}

// tick gives the time since the first one seen. It is by the monotonic clock where now has one.
func (d *Directory) tick(now time.Time) time.Duration {
	if d.base.IsZero() {
		d.base = now
	}
	return now.Sub(d.base)
}

// lapsed reports whether a record's time is over. What is visible depends on this alone; passes
// only free what has lapsed and tell of it.
func (d *Directory) lapsed(r *record, now time.Duration) bool {
	return r.state.timed() && d.ends(r) <= now || d.owners[r.owner].gone || r.state.out() && d.settled(r)
}

// ends is when a timed record lapses.
func (d *Directory) ends(r *record) time.Duration {
	if r.state == pending {
		return r.active
	}
	return r.active + d.ttl
}

func (d *Directory) hashUID(uid schema.UID) uint32 {
	return uint32(maphash.String(d.seed, string(uid)))
}

// hashSession mixes the numbers that our own gateways draw.
func hashSession(o uint32, s schema.SessionNum) uint32 {
	x := (uint64(s) ^ uint64(o)<<48) * 0x9e3779b97f4a7c15
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return uint32(x >> 32)
}

// first gives the first record of a uid, 0 where there is none.
func (d *Directory) first(hash uint32, uid schema.UID) uint32 {
	for at, i := d.users.seek(hash, d.users.home(hash)); i != 0; at, i = d.users.seek(hash, at+1) {
		if d.slab.at(i).uid() == uid {
			return i
		}
	}
	return 0
}

// find gives the record of an identity, 0 where there is none.
func (d *Directory) find(o uint32, s schema.SessionNum, uid schema.UID) uint32 {
	hash := hashSession(o, s)
	for at, i := d.sessions.seek(hash, d.sessions.home(hash)); i != 0; at, i = d.sessions.seek(hash, at+1) {
		if r := d.slab.at(i); r.session == s && r.owner == o && r.uid() == uid {
			return i
		}
	}
	return 0
}
