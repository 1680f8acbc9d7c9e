package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestWhatALinkMeetsAllTheTimeIsTold: a role that may not in, and one whose answers come too late.
func TestWhatALinkMeetsAllTheTimeIsTold(t *testing.T) {
	l, err := newLinks(prometheus.NewRegistry())
	require.NoError(t, err)
	var log bytes.Buffer
	nc := new(nats.Conn)
	for _, o := range roleOptions(redialSpread, l, slog.New(slog.NewTextHandler(&log, nil))) {
		require.NoError(t, o(&nc.Opts))
	}
	for i := range 1000 {
		nc.Opts.AsyncErrorCB(nc, nil, nats.ErrAuthorization)
		nc.Opts.AsyncErrorCB(nc, nil, fmt.Errorf("%w: Permissions Violation for Publish to \"_INBOX_delivery.%d\"", nats.ErrPermissionViolation, i))
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "NATS does not let this process in")
}

func TestAnErrorIsToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recent
		require.True(t, r.anew("a"))
		require.False(t, r.anew("a"))
		require.True(t, r.anew("b"))
		time.Sleep(time.Minute)
		require.True(t, r.anew("a"))
		for i := range 10_000 {
			r.anew(fmt.Sprint(i))
		}
		require.LessOrEqual(t, len(r.told), recentMost)
	})
}
