package gateway

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// What PROTOCOL.md tells client authors to do about a code is what the code means here.
func TestCodesOfTheProtocol(t *testing.T) {
	text, err := os.ReadFile("PROTOCOL.md")
	require.NoError(t, err)
	told := map[string]string{} // by code, what to do
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		what := strings.TrimSpace(cells[2])
		if !strings.Contains(cells[1], "`") { // close codes: the last cell says what to do
			what = strings.TrimSpace(cells[3])
		}
		for code := range strings.SplitSeq(strings.Trim(cells[1], " "), ", ") {
			told[strings.Trim(code, "`")] = what
		}
	}
	errors := []schema.FrameCode{
		schema.FrameBadMessage, schema.FrameUnknownType, schema.FrameUnsupported, schema.FrameTooLarge, schema.FrameRateLimited,
		schema.FrameInFlight, schema.FrameNotAllowed, schema.FrameWatchOff, schema.FrameWatchLimit, schema.FrameNoBackend,
		schema.FrameBackendError, schema.FrameTimeout, schema.FrameUnavailable, schema.FrameInternal,
	}
	for _, code := range errors {
		require.Equal(t, map[bool]string{true: "yes", false: "no"}[code.Retryable()], told[string(code)], string(code))
	}
	actions := map[schema.CloseAction]string{
		schema.ActionReconnect: "reconnect with backoff", schema.ActionNewToken: "get a new token, then reconnect", schema.ActionStop: "stop",
	}
	for _, code := range schema.CloseCodes() {
		require.Equal(t, actions[code.Action()], told[fmt.Sprint(uint16(code))], code.String())
	}
	require.Len(t, told, len(errors)+len(schema.CloseCodes())+2, "and the two headings")
}
