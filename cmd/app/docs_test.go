package app

import (
	"io"
	"os"
	"path/filepath"
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
	for _, file := range []string{"../../README.md", "../../delivery/SERVICE.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../deploy/rollcall@.service"} {
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

// metric is the name of one, its subsystem apart; before a * the beginning of several.
var metric = regexp.MustCompile("`rollcall_([a-z]+)_([a-z_]+)")

// The metrics that the README names are metrics of the program.
func TestMetricsOfTheReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	all := metric.FindAllStringSubmatch(string(readme), -1)
	require.Greater(t, len(all), 10)
	for _, m := range all {
		where := "../../" + m[1]
		if m[1] == "nats" {
			where = "."
		}
		files, err := filepath.Glob(where + "/*.go")
		require.NoError(t, err)
		var source strings.Builder
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			source.Write(text)
		}
		require.True(t, strings.Contains(source.String(), `"`+m[2]), "README names %s", m[0])
	}
}
