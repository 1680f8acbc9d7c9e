package schema_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

var update = flag.Bool("update", false, "rewrite testdata/messages.golden: a change of what is there already is a change of the protocol")

const messagesGolden = "testdata/messages.golden"

// Each golden entry is the message as Describe shows it, then its bytes in hex.
func TestMessagesGolden(t *testing.T) {
	var b strings.Builder
	seen := map[schema.Kind]bool{}
	for _, m := range samples() {
		data, err := schema.Marshal(m)
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s\n%s\n", schema.Describe(m), hex.EncodeToString(data))
		seen[m.Kind()] = true
	}
	for kind := range 256 {
		k := schema.Kind(kind)
		require.Equal(t, !strings.HasPrefix(k.String(), "kind("), seen[k], "%s needs a golden message", k)
	}
	if *update {
		require.NoError(t, os.WriteFile(messagesGolden, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(messagesGolden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

// What an older program has written is read for ever.
func TestGoldenBytesDecode(t *testing.T) {
	file, err := os.ReadFile(messagesGolden)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	want := samples()
	require.Len(t, lines, 2*len(want))
	for i, m := range want {
		data, err := hex.DecodeString(lines[2*i+1])
		require.NoError(t, err)
		got, err := schema.UnmarshalAny(data)
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
}

// The table of doc.go has a line for each kind.
func TestDocNamesEveryKind(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for kind := range schema.Kind(64) {
		if name := kind.String(); !strings.HasPrefix(name, "kind(") {
			require.Regexp(t, fmt.Sprintf(`(?m)^//\t%d +%s `, kind, name), string(doc))
			require.Equal(t, name+" answer", (kind + 64).String())
		}
	}
}
