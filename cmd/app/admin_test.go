package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each role has one line of /readyz, whatever is wrong with it.
func TestReadyIsALineARole(t *testing.T) {
	h := &health{}
	require.Equal(t, "not ready: starting\n", ready(t, h, http.StatusServiceUnavailable))
	var wrong error
	h.add("gateway gw-1", func() error { return wrong })
	h.add("authority a-1", func() error { return nil })
	require.Equal(t, "authority a-1: ready\ngateway gw-1: ready\n", ready(t, h, http.StatusOK))
	wrong = errors.Join(errors.New("not connected to NATS"), errors.New("no lease"))
	require.Equal(t, "authority a-1: ready\ngateway gw-1: not ready: not connected to NATS; no lease\n", ready(t, h, http.StatusServiceUnavailable))
}

func ready(t *testing.T, h *health, status int) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.serveReady(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
	require.Equal(t, status, w.Code)
	return w.Body.String()
}
