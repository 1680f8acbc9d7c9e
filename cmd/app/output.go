package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Output is how a command prints its answers.
type Output struct {
	JSON bool `name:"json" help:"One JSON object a line instead of a table."`
}

// table prints rows in columns under a heading.
type table struct {
	w *tabwriter.Writer
}

func newTable(w io.Writer, heading ...string) *table {
	t := &table{w: tabwriter.NewWriter(w, 2, 4, 2, ' ', 0)}
	t.line(heading)
	return t
}

// row adds a row. What stands in a cell comes from outside: nothing of it may steer the terminal.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = printable(fmt.Sprint(c))
	}
	t.line(texts)
}

func (t *table) line(cells []string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")) }

func (t *table) flush() error { return t.w.Flush() }

// printable gives text as it is, or quoted where it holds what a terminal would obey.
func printable(text string) string {
	if text == "" {
		return "-"
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

// clock is how a line tells when it was printed.
const clock = "15:04:05.000"

// devices are what stands behind a user's name, in a line.
func devices(list ...schema.WatchedDevice) string {
	var b strings.Builder
	for _, d := range list {
		fmt.Fprintf(&b, "  %s (%s, %s)", printable(string(d.Device)), printable(string(d.Flag)), printable(d.Level))
	}
	return b.String()
}

// printJSON prints each value as an object on a line of its own.
func printJSON[T any](w io.Writer, values ...T) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, v := range values {
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("print JSON: %w", err)
		}
	}
	return nil
}

// uids takes the users named as arguments; a single "-" stands for the lines of standard input.
func (s *session) uids(args []string) ([]schema.UID, error) {
	if len(args) == 1 && args[0] == "-" {
		var err error
		if args, err = lines(s.in); err != nil {
			return nil, err
		}
	}
	list := make([]schema.UID, len(args))
	for i, a := range args {
		list[i] = schema.UID(a)
		if err := list[i].Check(); err != nil {
			return nil, fmt.Errorf("%w: %w", errUsage, err)
		}
	}
	return list, nil
}

// lines reads the lines that are not empty.
func lines(r io.Reader) ([]string, error) {
	var list []string
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		if line := strings.TrimRight(scanner.Text(), "\r"); line != "" {
			list = append(list, line)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return list, nil
}
