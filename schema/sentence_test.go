package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCut(t *testing.T) {
	for in, out := range map[string]string{
		"":            "",
		"abcdef":      "abcdef",
		"abcdefg":     "abcdef",
		"abcde\xff":   "abcde?",
		"abc\xff\xff": "abc?",
		"abcdeé":      "abcde",
		"abcdé":       "abcdé",
		"abcde🙂":      "abcde",
		"🙂🙂":          "🙂",
	} {
		require.Equal(t, out, Cut(in, 6), "%q", in)
	}
	require.Len(t, Sentence(strings.Repeat("x", 1<<20)), MaxSentence)
}
