package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestLinksOfTheDocs(t *testing.T) {
	dir := root(t)
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "*.md")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Skip("not a git work tree: what stands in a release archive was checked before it was made")
	}
	for name := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(dir, filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
	}
}
