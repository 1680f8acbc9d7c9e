package app

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// word is one word of a shell line: quoted, or without spaces.
var word = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

// The commands that the documentation shows are commands that this program takes.
func TestCommandsOfTheDocs(t *testing.T) {
	for _, file := range []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../deploy/rollcall@.service"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "ExecStart=/usr/local/bin/")
			command, ok := strings.CutPrefix(line, "rollcall ")
			if !ok {
				continue
			}
			command, _, _ = strings.Cut(command, " #")
			command = strings.ReplaceAll(command, "%i --config /etc/rollcall/config.yaml", "gateway")
			args := word.FindAllString(command, -1)
			for i := range args {
				args[i] = strings.Trim(args[i], `'"`)
			}
			_, err := parse(args, io.Discard, io.Discard)
			require.NoError(t, err, "%s: %s", file, line)
		}
	}
}
