package gateway

import "time"

// allowance bounds the frames of one client: burst at once, then rate a second. One who goes on
// without regard to refusals is over it for good: see exhausted. Owned by the reader.
type allowance struct {
	left    float64       // frames that may come at once
	at      time.Duration // when left was right
	refused int           // in a row
}

// take reports whether one more frame is allowed at now.
func (a *allowance) take(now time.Duration, rate, burst int) bool {
	a.left = min(a.left+(now-a.at).Seconds()*float64(rate), float64(burst))
	a.at = now
	if a.left < 1 {
		a.refused++
		return false
	}
	a.left--
	a.refused = 0
	return true
}

// exhausted reports whether a whole burst was refused in a row: the client does not listen.
func (a *allowance) exhausted(burst int) bool { return a.refused > burst }
