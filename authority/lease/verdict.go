package lease

import (
	"errors"

	"github.com/rollcall-mesh/rollcall/schema"
)

// verdict is what a process's key says about a life, after a write of it was not acknowledged. The
// server gives one code for several of these, so the key is read.
type verdict uint8

const (
	unclear    verdict = iota // the key could not be read: try again
	mine                      // it names this life: compare-and-swap again at its revision
	lost                      // dead, deleted, or not a value of ours
	other                     // a living other boot stands there
	bucketGone                // no such key and no marker, or no bucket
)

func judge(boot schema.BootID, e entry, err error) verdict {
	switch {
	case errors.Is(err, ErrNoBucket), errors.Is(err, ErrNoKey):
		return bucketGone
	case err != nil:
		return unclear
	}
	v, ok := decodeProcess(e)
	switch {
	case !ok, v.State == schema.StateDead:
		return lost
	case v.Boot == boot:
		return mine
	}
	return other
}
