package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/rollcall-mesh/rollcall"

// pkg is what `go list -json` says of a package of this module, with Path cut to what follows the
// module's name.
type pkg struct {
	Dir          string
	ImportPath   string
	Doc          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func (p *pkg) path() string { return within(p.ImportPath) }

// allImports has the imports of the package and of its tests.
func (p *pkg) allImports() []string {
	return slices.Concat(p.Imports, p.TestImports, p.XTestImports)
}

func (p *pkg) allFiles() []string {
	var files []string
	for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
		files = append(files, filepath.Join(p.Dir, name))
	}
	return files
}

// within cuts the module's name off an import path; another module's path stays as it is.
func within(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// under reports whether path is dir or stands below it.
func under(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, dir+"/")
	})
}

func root(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json", "./...")
	cmd.Dir = root(t)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var list []pkg
	for dec := json.NewDecoder(out); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		list = append(list, p)
	}
	require.NoError(t, cmd.Wait())
	require.NotEmpty(t, list)
	return list
}

func TestTopLevel(t *testing.T) {
	agreed := strings.Fields(`cmd gateway authority delivery subjects schema deploy integration
		go.mod go.sum Makefile README.md CHANGELOG.md LICENSE CONTRIBUTING.md SECURITY.md`)
	cmd := exec.CommandContext(t.Context(), "git", "ls-files")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Skip("not a git work tree: what stands in a release archive was checked before it was made")
	}
	for name := range strings.Lines(string(out)) {
		top, _, _ := strings.Cut(strings.TrimSpace(name), "/")
		if !strings.HasPrefix(top, ".") && !slices.Contains(agreed, top) {
			t.Errorf("%s is not in the agreed top level", top)
		}
	}
}

func TestPackageNames(t *testing.T) {
	for _, p := range packages(t) {
		switch base := filepath.Base(p.ImportPath); base {
		case "util", "utils", "common", "helpers", "types", "models":
			t.Errorf("%s: a package is named by what it owns, not %s", p.path(), base)
		}
	}
}

func TestEachPackageHasADoc(t *testing.T) {
	for _, p := range packages(t) {
		if p.path() == "cmd/rollcall" {
			continue // its doc stands above main: one file
		}
		if !slices.Contains(p.GoFiles, "doc.go") || p.Doc == "" {
			t.Errorf("%s: no doc.go that says what the package owns", p.path())
		}
	}
}
