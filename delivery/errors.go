package delivery

import (
	"errors"
	"fmt"

	"github.com/rollcall-mesh/rollcall/schema"
)

var (
	// ErrClosed is returned when the Delivery has been closed.
	ErrClosed = errors.New("delivery is closed")
	// ErrTooLarge is returned when a call names too many uids, or a message or an answer does not
	// fit.
	ErrTooLarge = errors.New("too large")
	// ErrNoGateway is returned when a call names a gateway that does not live.
	ErrNoGateway = errors.New("no such gateway")
	// ErrNotKept is returned when it was asked when users were last there, and that is not kept.
	ErrNotKept = errors.New("when users were last seen is not kept: rollcall setup --last-seen 720h turns it on")
	// ErrUnknownUser is returned when a call needs to know where a user is and nobody could tell:
	// the slot is rebuilding, unowned or unreachable. The same may succeed a moment later.
	ErrUnknownUser = errors.New("whereabouts of the user are unknown")
)

// checkUIDs finds the first uid that is none.
func checkUIDs(uids []schema.UID) error {
	for i, uid := range uids {
		if err := uid.Check(); err != nil {
			return fmt.Errorf("%w: uids[%d]: %w", schema.ErrBad, i, err)
		}
	}
	return nil
}

// bad makes an error that blames the caller.
func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{schema.ErrBad}, args...)...)
}
