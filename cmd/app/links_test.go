package app

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestErrorsOfLinksAreCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	l, err := newLinks(r)
	require.NoError(t, err)
	_, err = newLinks(r)
	require.Error(t, err, "a role connects once")
	nc := new(nats.Conn)
	for _, o := range roleOptions(redialSpread, l, slog.New(slog.DiscardHandler)) {
		require.NoError(t, o(&nc.Opts))
	}
	nc.Opts.AsyncErrorCB(nc, nil, fmt.Errorf("%w: on event.7.alice", nats.ErrPermissionViolation))
	nc.Opts.AsyncErrorCB(nc, nil, fmt.Errorf("%w: Permissions Violation for Publish to \"_INBOX_delivery.x\"", nats.ErrPermissionViolation))
	nc.Opts.AsyncErrorCB(nc, nil, nats.ErrSlowConsumer)
	nc.Opts.AsyncErrorCB(nc, nil, nats.ErrSlowConsumer)
	nc.Opts.AsyncErrorCB(nc, nil, errors.New("else"))
	families, err := r.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				got[label.GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"refused": 1, "late_answer": 1, "slow_consumer": 2, "other": 1, "up": 0, "down": 0}, got)
}
