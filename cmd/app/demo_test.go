package app

import (
	"path"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a browser calls the demo's page is one of the patterns that its gateways take.
func TestPageOrigins(t *testing.T) {
	for address, names := range map[string][]string{
		"127.0.0.1:8080": {"127.0.0.1:8080", "localhost:8080"},
		"[::1]:8080":     {"[::1]:8080", "localhost:8080"},
	} {
		patterns := pageOrigins(address)
		require.Len(t, patterns, len(names))
		for i, name := range names {
			matched, err := path.Match(patterns[i], name)
			require.NoError(t, err)
			require.True(t, matched, "%s by %s", name, patterns[i])
		}
	}
}
