package client

import (
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Phase is where a Client stands.
//
//	Connecting --> Connected --> Waiting --> Connecting ...
//	     |             |  ^ connected came again      |
//	     |             +--+                           |
//	     +-------> Waiting, or Stopped <--------------+
type Phase uint8

// The phases.
const (
	Connecting Phase = iota
	Connected
	Waiting
	Stopped
)

var phaseNames = [...]string{"connecting", "connected", "waiting", "stopped"}

func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// State is one change, for OnState.
type State struct {
	Phase   Phase
	Session Session       // Connected: the session's values
	Delay   time.Duration // Waiting: until the next attempt
	Err     error         // Waiting: why; Stopped: why, nil at the end of the context
}

// Session is what the gateway said when it accepted the login.
type Session struct {
	Session   schema.SessionID
	Gateway   schema.Process
	UID       schema.UID
	Device    schema.DeviceID
	Flag      schema.Flag
	Level     schema.Level
	Heartbeat time.Duration
	ExpiresAt time.Time // of the token; zero is never
	MaxBytes  int64     // the largest frame that the gateway takes; 0 is unknown
}

func sessionOf(f schema.ServerFrame) Session {
	s := Session{
		Session:   f.Session,
		Gateway:   schema.Process{Node: f.Node, Boot: f.Boot},
		UID:       f.UID,
		Device:    f.Device,
		Flag:      f.Flag,
		Heartbeat: heartbeatDefault,
		MaxBytes:  f.MaxBytes,
	}
	s.Level, _ = schema.ParseLevel(f.Level) // one of a newer gateway reads as slave
	if f.HeartbeatMS > 0 {
		s.Heartbeat = max(heartbeatLeast, time.Duration(f.HeartbeatMS)*time.Millisecond)
	}
	s.ExpiresAt = expiry(f)
	return s
}

// expiry is when a frame says that the token ends; zero is never.
func expiry(f schema.ServerFrame) time.Time {
	if f.ExpiresAt <= 0 {
		return time.Time{}
	}
	return time.Unix(f.ExpiresAt, 0)
}
