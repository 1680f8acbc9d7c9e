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

// inline is a command within a sentence.
var inline = regexp.MustCompile("`rollcall ([^`]+)`")

// The commands that the documentation shows are commands that this program takes.
func TestCommandsOfTheDocs(t *testing.T) {
	for _, file := range []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../deploy/rollcall@.service"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			for _, found := range inline.FindAllStringSubmatch(line, -1) {
				requireCommand(t, file, found[1])
			}
			line = strings.TrimPrefix(strings.TrimSpace(line), "ExecStart=/usr/local/bin/")
			command, ok := strings.CutPrefix(line, "rollcall ")
			if !ok {
				continue
			}
			command, _, _ = strings.Cut(command, " #")
			requireCommand(t, file, strings.ReplaceAll(command, "%i --config /etc/rollcall/config.yaml", "gateway"))
		}
	}
}

func requireCommand(t *testing.T, file, command string) {
	t.Helper()
	args := word.FindAllString(command, -1)
	for i := range args {
		args[i] = strings.Trim(args[i], `'"`)
	}
	_, err := parse(args, io.Discard, io.Discard)
	require.NoError(t, err, "%s: rollcall %s", file, command)
}
