package lease

import (
	"errors"

	"github.com/rollcall-mesh/rollcall/schema"
)

// verdict is what a process's key says about a life. The server gives one code for several of
// these to a write that was not taken, so the key is read.
type verdict uint8

const (
	unclear    verdict = iota // the key could not be read: try again
	mine                      // it names this life: compare-and-swap at its revision
	dead                      // state dead, deleted, or not a value of ours
	other                     // it names another boot, not dead
	bucketGone                // no such key and no marker, or no bucket
	closed                    // the connection is closed for good
)

// judge reads a verdict off the node's key.
func judge(boot schema.BootID, e entry, err error) verdict {
	switch {
	case errors.Is(err, ErrNoBucket), errors.Is(err, ErrNoKey):
		return bucketGone
	case isClosed(err):
		return closed
	case err != nil:
		return unclear
	}
	v, ok := decodeProcess(e)
	switch {
	case !ok, v.State == schema.StateDead:
		return dead
	case v.Boot == boot:
		return mine
	}
	return other
}
