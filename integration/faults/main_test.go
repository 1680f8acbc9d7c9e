package faults

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/integration/process"
)

// variable turns the campaign on: "long", or "short" for what CI has time for.
const variable = "ROLLCALL_FAULTS"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(childVariable) != "":
		parts := map[string]func([]string) error{"nats": serveNATS, "crowd": serveCrowd}
		if err := parts[os.Getenv(childVariable)](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case os.Getenv(variable) == "":
		goleak.VerifyTestMain(m) // every test is skipped: the program is not even built
	default:
		process.Main(m)
	}
}

// length is how much of the campaign runs.
type length struct{ short bool }

// campaign skips a test outside of the campaign.
func campaign(t *testing.T) length {
	t.Helper()
	switch os.Getenv(variable) {
	case "":
		t.Skip("faults of real processes take minutes and the machine to themselves: run make faults")
	case "short":
		return length{short: true}
	}
	return length{}
}

// times is how often a fault is repeated.
func (l length) times(long, short int) int {
	if l.short {
		return short
	}
	return long
}

// sessions are those of the users, and pushes the messages to them a second.
func (l length) load() (sessions, pushes int) {
	if l.short {
		return 500, 100
	}
	return 5000, 500
}

// pass is one set of the mesh's settings. All times of a fault scale with it.
type pass struct {
	name                  string
	lease, heartbeat, ttl time.Duration
}

func defaults() pass { return pass{"defaults", 30 * time.Second, 30 * time.Second, 90 * time.Second} }

func tenth() pass { return pass{"a tenth", 3 * time.Second, 3 * time.Second, 9 * time.Second} }

// scale gives a time that is stated for the defaults.
func (p pass) scale(d time.Duration) time.Duration {
	return time.Duration(float64(d) * p.lease.Seconds() / defaults().lease.Seconds())
}

// eachPass runs a row at a tenth, and in the long campaign at the defaults as well.
func eachPass(t *testing.T, row func(t *testing.T, l length, p pass)) {
	l := campaign(t)
	t.Run("tenth", func(t *testing.T) { row(t, l, tenth()) })
	if !l.short {
		t.Run("defaults", func(t *testing.T) { row(t, l, defaults()) })
	}
}
