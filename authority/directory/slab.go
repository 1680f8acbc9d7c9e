package directory

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// state is what a record says of its identity (uid, owner, session). It changes in
// change.become only.
//
//	            conflict              commit
//	register ----------> pending ----------------> committed <----------- register, sync
//	                        | deadline, refusal        |
//	                        v                          v
//	                      floor   <------  expiry, remove, kick answered
//	                   tombstone  <------  unregister
//	                  superseded  <------  put out without an answer, or loser of a sync
type state uint8

const (
	vacant     state = iota // the record names nobody
	pending                 // a login that waits for its conflicts to end; invisible
	committed               // a route
	tombstone               // unregistered at seq
	floor                   // out; only the highest seq is remembered
	superseded              // put out by another: told so, whatever its seq, for one TTL
)

var stateNames = [...]string{"vacant", "pending", "active", "tombstone", "floor", "superseded"}

func (s state) String() string { return stateNames[s] }

// out reports whether the session is neither visible nor on its way to be.
func (s state) out() bool { return s > committed }

// timed reports whether a record of this state ends by the clock, and so hangs in the wheel.
func (s state) timed() bool { return s == pending || s == committed || s == superseded }

// record is all that is known of one identity: 104 bytes, and the text. It has one pointer.
type record struct {
	text    string // uid, then device, in one allocation
	session schema.SessionNum
	seq     schema.OwnerSeq // the highest seen
	order   schema.Order
	gen     schema.Generation
	since   time.Duration // connected at
	active  time.Duration // committed: last sign of life; pending: its deadline; superseded: when it was put out
	owner   uint32        // in Directory.owners
	class   uint32        // in Directory.classes
	next    uint32        // record of the same uid
	links   [2]link       // byOwner, byTime
	uidLen  uint8         // less one: a uid has 1 to 256 bytes
	bucket  uint8         // of the wheel, where state.timed
	state   state
	loss    cell // superseded: what put it out
}

func (r *record) uid() schema.UID         { return schema.UID(r.text[:int(r.uidLen)+1]) }
func (r *record) device() schema.DeviceID { return schema.DeviceID(r.text[int(r.uidLen)+1:]) }

// link is a record's place in one ring.
type link struct{ prev, next uint32 }

// The rings that a record can hang in.
const (
	byOwner = iota // visible and pending records of one owner, or those that are out
	byTime         // records that come due in one second
)

// ring is a circular list of records, named by its first; 0 is empty.
type ring uint32

// slab holds the records of one directory in pages, and names them by number from 1. Freed
// records are used again; pages are kept, so that a directory stays as large as it once was.
type slab struct {
	pages []*[pageSize]record
	size  uint32 // numbers ever given out
	free  uint32 // first of the free records, chained by next
}

// pageSize is small beside the 4,000 routes of a slot in a mesh of a million.
const pageSize = 64

func (s *slab) at(i uint32) *record { return &s.pages[(i-1)/pageSize][(i-1)%pageSize] }

// take gives a vacant record.
func (s *slab) take() uint32 {
	if i := s.free; i != 0 {
		s.free = s.at(i).next
		s.at(i).next = 0
		return i
	}
	if int(s.size) == len(s.pages)*pageSize {
		s.pages = append(s.pages, new([pageSize]record))
	}
	s.size++
	return s.size
}

// give takes a record back, its text with it.
func (s *slab) give(i uint32) {
	*s.at(i) = record{next: s.free}
	s.free = i
}

// push hangs i in at the end of a ring.
func (s *slab) push(r *ring, which int, i uint32) {
	if *r == 0 {
		s.at(i).links[which] = link{i, i}
		*r = ring(i)
		return
	}
	first := &s.at(uint32(*r)).links[which]
	s.at(i).links[which] = link{prev: first.prev, next: uint32(*r)}
	s.at(first.prev).links[which].next = i
	first.prev = i
}

// pull takes i out of the ring that it hangs in.
func (s *slab) pull(r *ring, which int, i uint32) {
	l := s.at(i).links[which]
	if l.next == i {
		*r = 0
		return
	}
	s.at(l.prev).links[which].next = l.next
	s.at(l.next).links[which].prev = l.prev
	if *r == ring(i) {
		*r = ring(l.next)
	}
}

// turn makes the second of a ring its first.
func (s *slab) turn(r *ring, which int) { *r = ring(s.at(uint32(*r)).links[which].next) }
