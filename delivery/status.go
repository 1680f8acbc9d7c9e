package delivery

import (
	"context"
	"errors"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// statuses are the codes of the service's errors, the first that fits.
var statuses = []struct {
	err  error
	code int
}{
	{ErrTooLarge, 413},
	{ErrNoGateway, 404},
	{client.ErrGone, 404},
	{errBusy, 429},
	{client.ErrTimeout, 504},
	{context.DeadlineExceeded, 504},
	{schema.ErrInternal, 500},
	{client.ErrAnswer, 500},
	// All of these pass: the same may succeed a moment later.
	{ErrUnknownUser, 503},
	{ErrClosed, 503},
	{context.Canceled, 503},
	{schema.ErrUnavailable, 503},
	{schema.ErrMismatch, 503},
	{schema.ErrStale, 503},
	{schema.ErrRetry, 503},
	{client.ErrUnowned, 503},
	{client.ErrNoResponders, 503},
	{client.ErrDisconnected, 503},
	{client.ErrFull, 503},
	{client.ErrStopped, 503},
	{schema.ErrBad, 400},
}

// status gives the code of an error: 200 of none, 500 where none is known.
func status(err error) int {
	if err == nil {
		return 200
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	return 500
}
