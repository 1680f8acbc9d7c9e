package client

import "time"

// vigil decides what silence asks for. Times are counted from the session's start.
//
//	wrote nothing for keepalive          -> ping, so that the path stays open
//	read nothing for 2 heartbeats        -> ping, once
//	read nothing for 5 s after that ping -> give up
type vigil struct {
	wrote  time.Duration // when the last frame was written
	probed time.Duration // when silence was last answered with a ping; 0 is never
}

type vigilAct uint8

const (
	wait vigilAct = iota
	ping
	giveUp
)

// check gives what to do at now, having last read at read, and how long to wait until the next
// check if nothing is written in between. The caller sets wrote after each frame.
func (v *vigil) check(now, read, heartbeat time.Duration) (act vigilAct, next time.Duration) {
	silence := 2 * heartbeat
	keepalive := min(keepaliveMost, heartbeat*5/6)
	probing := v.probed > read
	switch {
	case probing && now >= v.probed+probeGrace:
		return giveUp, 0
	case !probing && now >= read+silence:
		v.probed, v.wrote, act = now, now, ping
		probing = true
	case now >= v.wrote+keepalive:
		v.wrote, act = now, ping
	}
	due := read + silence
	if probing {
		due = v.probed + probeGrace
	}
	return act, min(due, v.wrote+keepalive) - now
}
