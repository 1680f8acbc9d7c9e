package app

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// word is one word of a shell line: quoted, or without spaces.
var word = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

// inline is a command within a sentence.
var inline = regexp.MustCompile("`rollcall ([^`]+)`")

// documents are those for people, with their paths from here.
var documents = []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md",
	"../../delivery/SERVICE.md", "../../gateway/PROTOCOL.md", "../../integration/model/README.md", "../../deploy/rollcall@.service"}

// The commands that the documentation shows are commands that this program takes.
func TestCommandsOfTheDocs(t *testing.T) {
	for _, file := range documents {
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

// link is one into this repository; heading is what its part behind # names.
var (
	link    = regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// Where a document points to there is something.
func TestLinksOfTheDocs(t *testing.T) {
	for _, file := range documents {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			to := file
			if found[1] != "" {
				to = filepath.Join(filepath.Dir(file), found[1])
			}
			_, err := os.Stat(to)
			require.NoError(t, err, file)
			if found[2] != "" {
				require.Contains(t, anchors(t, to), found[2], file)
			}
		}
	}
}

// anchors gives the names under which a document's headings can be pointed to.
func anchors(t *testing.T, file string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, found := range heading.FindAllStringSubmatch(string(text), -1) {
		kept := strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' || r == ' ' {
				return unicode.ToLower(r)
			}
			return -1
		}, found[1])
		names = append(names, strings.ReplaceAll(kept, " ", "-"))
	}
	return names
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
