package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Format is the number of the wire's and the bucket's form; processes of different formats never
// share a mesh.
const Format = 1

// Config is the value of the bucket's key "config": what all processes of a mesh share. Durations
// are in milliseconds.
type Config struct {
	Slots       int    `json:"slots"`
	Format      int    `json:"format"`
	LeaseMS     int64  `json:"lease_ms"`
	HeartbeatMS int64  `json:"heartbeat_ms"`
	TTLMS       int64  `json:"ttl_ms"`
	Policy      string `json:"policy"`
	MaxSessions int    `json:"max_sessions"` // of one uid
	GraceMS     int64  `json:"grace_ms"`     // by which an offline event is held back; 0 = not at all
	LastSeen    bool   `json:"last_seen"`    // authorities write into the bucket last_seen when a user has gone
	Events      bool   `json:"events"`       // authorities see to it that the stream of events misses none
	WatchOff    bool   `json:"watch_off"`    // watches of clients rest: gateways tell them of nobody
}

// DefaultConfig is what the first authority writes.
func DefaultConfig() Config {
	return Config{Slots: Slots, Format: Format, LeaseMS: 30_000, HeartbeatMS: 30_000, TTLMS: 90_000, Policy: "levels", MaxSessions: 32, GraceMS: 5000}
}

// ParseConfig reads the value of the bucket's key "config". A setting that an older program did not
// know of has its default.
func ParseConfig(data []byte) (Config, error) {
	c := Config{GraceMS: DefaultConfig().GraceMS}
	err := json.Unmarshal(data, &c)
	return c, err
}

// Lease is how long a process owns what it holds without a renewal.
func (c Config) Lease() time.Duration { return time.Duration(c.LeaseMS) * time.Millisecond }

// Heartbeat is the longest silence of a client before the gateway pings it.
func (c Config) Heartbeat() time.Duration { return time.Duration(c.HeartbeatMS) * time.Millisecond }

// TTL is how long a route stays without a touch.
func (c Config) TTL() time.Duration { return time.Duration(c.TTLMS) * time.Millisecond }

// Grace is how long an offline event is held back.
func (c Config) Grace() time.Duration { return time.Duration(c.GraceMS) * time.Millisecond }

// Renew is the time between two renewals of a process's key.
func (c Config) Renew() time.Duration { return c.Lease() / 10 }

// Trust is how long an acknowledged renewal is relied upon, from the start of the attempt.
func (c Config) Trust() time.Duration { return c.Lease() * 2 / 3 }

// Flush is the time between two touches of a slot.
func (c Config) Flush() time.Duration { return c.Heartbeat() / 3 }

// Settle is how long a view must have stood still, and the bound of a rebuild.
func (c Config) Settle() time.Duration { return c.Lease() / 6 }

// Bounds of lease and heartbeat, in milliseconds: a second to a day.
const (
	minMS = 1000
	maxMS = 24 * 60 * 60 * 1000
)

// maxGraceMS bounds the grace, in milliseconds: offlines wait in memory for so long.
const maxGraceMS = 10 * 60 * 1000

// ErrConfig is returned when a mesh's settings break a rule, or differ from this program's where
// they must not.
var ErrConfig = errors.New("mesh settings")

// Check tells what is wrong with the settings, or returns nil.
func (c Config) Check() error {
	switch {
	case c.Slots != Slots:
		return fmt.Errorf("%w: slots is %d there and %d in this program: use the program that the mesh was made with, or another --prefix", ErrConfig, c.Slots, Slots)
	case c.Format != Format:
		return fmt.Errorf("%w: format is %d there and %d in this program: use the program that the mesh was made with, or another --prefix", ErrConfig, c.Format, Format)
	case c.LeaseMS < minMS || c.LeaseMS > maxMS:
		return fmt.Errorf("%w: lease_ms is %d: it takes %d to %d", ErrConfig, c.LeaseMS, minMS, maxMS)
	case c.HeartbeatMS < minMS || c.HeartbeatMS > maxMS:
		return fmt.Errorf("%w: heartbeat_ms is %d: it takes %d to %d", ErrConfig, c.HeartbeatMS, minMS, maxMS)
	case c.TTLMS > 3*maxMS:
		return fmt.Errorf("%w: ttl_ms is %d: it takes at most %d", ErrConfig, c.TTLMS, 3*maxMS)
	case c.TTLMS < 3*c.HeartbeatMS:
		return fmt.Errorf("%w: ttl is %v: it takes at least 3 heartbeats, %v", ErrConfig, c.TTL(), 3*c.Heartbeat())
	case c.GraceMS < 0 || c.GraceMS > maxGraceMS:
		return fmt.Errorf("%w: grace_ms is %d: it takes 0 to %d", ErrConfig, c.GraceMS, maxGraceMS)
	case c.MaxSessions < 1 || c.MaxSessions > maxConflicts:
		return fmt.Errorf("%w: max_sessions is %d: it takes 1 to %d", ErrConfig, c.MaxSessions, maxConflicts)
	}
	return nil
}

// ProcessState is the state of a process in its key.
type ProcessState string

// The states of a process.
const (
	StateJoining ProcessState = "joining"
	StateServing ProcessState = "serving"
	StateLeaving ProcessState = "leaving"
	StateDead    ProcessState = "dead" // written by whoever ended the lease
)

// ProcessValue is the value of the keys authority.<node> and gateway.<node>.
type ProcessValue struct {
	Boot      BootID       `json:"boot"`
	State     ProcessState `json:"state"`
	Version   string       `json:"version,omitempty"`
	Addresses []string     `json:"addresses,omitempty"` // of a gateway: its listeners
	Sessions  int          `json:"sessions,omitempty"`  // of a gateway
	Since     Revision     `json:"since,omitempty"`     // of a gateway: the last revision read while it had no socket
	Conn      string       `json:"c,omitempty"`         // of an authority: the connection over which it was last renewed, "<server id>/<client id>"
}

// SlotValue is the value of the keys slot.<n>; the revision of the key is the slot's fence.
type SlotValue struct {
	Node NodeID `json:"node"`
	Boot BootID `json:"boot"`
}
