package model_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources are read by the tests, so that go test's cache knows of them.
func sources(t *testing.T) map[string]string {
	t.Helper()
	text := make(map[string]string)
	for _, name := range []string{"presence.pml", "gateway.pml", "directory.pml", "steps.pml", "prove", "README.md"} {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		text[name] = string(b)
	}
	return text
}

// switches gives the names in one of the lists of presence.pml, which ends at a line that goes on no further.
func switches(t *testing.T, model, list string) (names []string) {
	t.Helper()
	_, rest, ok := strings.Cut(model, "#define "+list+"(X)")
	require.True(t, ok, "presence.pml has no list %s", list)
	for line := range strings.Lines(rest) {
		for _, m := range regexp.MustCompile(`X\((\w+)\)`).FindAllStringSubmatch(line, -1) {
			names = append(names, m[1])
		}
		if !strings.HasSuffix(strings.TrimSpace(line), `\`) {
			break
		}
	}
	require.NotEmpty(t, names)
	return names
}

// A fault that no row searches for proves nothing, and one that is not explained teaches nothing.
func TestEverySwitchIsSearchedAndTold(t *testing.T) {
	text := sources(t)
	for list, want := range map[string]string{"FAULTS": "caught", "GOALS": "reached"} {
		for _, name := range switches(t, text["presence.pml"], list) {
			row := regexp.MustCompile(fmt.Sprintf(`(?m)^%s +%s `, want, name))
			require.Regexp(t, row, text["prove"], "prove has no row for it")
			require.Contains(t, text["README.md"], "| `"+name+"` |", "README.md has no row for it")
			used := strings.Contains(text["gateway.pml"]+text["directory.pml"]+text["steps.pml"], "("+name+")")
			require.True(t, used, "%s changes nothing", name)
		}
	}
	for _, name := range switches(t, text["presence.pml"], "WORLD") {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^holds .*\b%s\b`, name))
		require.Regexp(t, row, text["prove"], "nothing is shown to hold under it")
	}
}

// The smallest rows of each kind; make prove runs all.
func TestSmallPart(t *testing.T) {
	sources(t)
	if _, err := exec.LookPath("spin"); err != nil {
		if strings.Contains(os.Getenv("ROLLCALL_REQUIRE"), "spin") {
			require.FailNow(t, "spin is required by ROLLCALL_REQUIRE, and is not installed")
		}
		t.Skip("spin is not installed")
	}
	prove := exec.CommandContext(t.Context(), "./prove", "no_tombstone", "goal_forced", "marks-forced")
	prove.Env = append(os.Environ(), "BUDGET=600", "CFLAGS=-O0") // whatever else this machine does
	out, err := prove.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `no_tombstone .* caught `, string(out))
	require.Regexp(t, `goal_forced .* reached `, string(out))
	require.Regexp(t, `marks-forced .* holds .* full`, string(out))
}
