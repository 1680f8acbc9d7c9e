package app

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2   // the command line, the environment or the config file is wrong
	ExitUnknown     = 3   // answered, but some answers are "unknown"
	ExitUnreachable = 4   // no NATS, or nobody serves there
	ExitInterrupted = 130 // a second signal came while the first one's end was under way
)

// The kinds of errors that decide the exit code.
var (
	// errUsage is returned when a flag, a variable or the config file is wrong.
	errUsage = errors.New("usage")
	// errUnknown is returned when some of the answers are "unknown".
	errUnknown = errors.New("some answers are unknown")
	// errUnreachable is returned when NATS is not there, or nobody answers there.
	errUnreachable = errors.New("unreachable")
)

func exitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errUsage):
		return ExitUsage
	case errors.Is(err, errUnreachable):
		return ExitUnreachable
	case errors.Is(err, errUnknown):
		return ExitUnknown
	}
	return ExitFailed
}

// report prints an error as one line. That it is about usage goes without saying.
func report(w io.Writer, err error) {
	if err != nil {
		fmt.Fprintf(w, "rollcall: %s\n", strings.TrimPrefix(oneLine(err), errUsage.Error()+": "))
	}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
