package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Limits of length, in lines.
const (
	maxFile     = 500
	maxFunc     = 80
	maxMainFile = 40
)

// source is one parsed file of the module.
type source struct {
	pkg  string // the package's path inside the module
	name string // with its folder, as people write it
	fset *token.FileSet
	ast  *ast.File
}

func (s *source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

func (s *source) imports(path string) bool {
	for _, imp := range s.ast.Imports {
		if imp.Path.Value == strconv.Quote(path) {
			return true
		}
	}
	return false
}

func sources(t *testing.T) []source {
	t.Helper()
	var list []source
	for _, p := range packages(t) {
		for _, file := range p.allFiles() {
			s := source{pkg: p.path(), name: filepath.Join(p.path(), filepath.Base(file)), fset: token.NewFileSet()}
			parsed, err := parser.ParseFile(s.fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			s.ast = parsed
			list = append(list, s)
		}
	}
	return list
}

func TestLengths(t *testing.T) {
	for _, s := range sources(t) {
		lines := s.fset.File(s.ast.FileStart).LineCount()
		if lines > maxFile {
			t.Errorf("%s has %d lines: at most %d", s.name, lines, maxFile)
		}
		if s.name == "cmd/rollcall/main.go" && lines > maxMainFile {
			t.Errorf("%s has %d lines: at most %d", s.name, lines, maxMainFile)
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > maxFunc {
				t.Errorf("%s:%d: %s has %d lines: at most %d", s.name, s.line(f.Pos()), f.Name.Name, n, maxFunc)
			}
		}
	}
}

// subjectLike matches what only package subjects may spell: subjects, keys, buckets and streams.
var subjectLike = regexp.MustCompile(
	`^((slot|push|kick|event|authority|gateway|up|presence|fallback|auth|sys)\.[^ ]*|\$(KV|JS|SYS|SRV)\..*|KV_.*)$`)

// TestSubjectsHaveOneHome reads product code only: a test may say what the outside sees.
func TestSubjectsHaveOneHome(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || under(s.pkg, "subjects", "integration") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				if n.Kind == token.STRING && err == nil && subjectLike.MatchString(text) {
					t.Errorf("%s:%d: %s belongs into package subjects", s.name, s.line(n.Pos()), n.Value)
				}
			}
			return true
		})
	}
}

// calls gives each call of a function of an imported package, by "package.Name".
func calls(s *source, visit func(name string, c *ast.CallExpr)) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			if sel, ok := c.Fun.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok {
					visit(x.Name+"."+sel.Sel.Name, c)
				}
			}
		}
		return true
	})
}

// bubbles are the packages whose tests run in virtual time.
func bubbles(list []source) map[string]bool {
	in := make(map[string]bool)
	for _, s := range list {
		if s.imports("testing/synctest") || s.imports(module+"/integration/bubble") {
			in[s.pkg] = true
		}
	}
	return in
}

func TestHabits(t *testing.T) {
	list := sources(t)
	virtual := bubbles(list)
	for _, s := range list {
		calls(&s, func(name string, c *ast.CallExpr) {
			at := func(why string) { t.Errorf("%s:%d: %s: %s", s.name, s.line(c.Pos()), name, why) }
			switch name {
			case "os.Getenv", "os.LookupEnv", "os.Environ":
				if !s.isTest() && !under(s.pkg, "cmd", "integration") {
					at("the environment is read in cmd only")
				}
			case "time.Sleep":
				if s.isTest() && !virtual[s.pkg] {
					at("no test waits in real time")
				}
			case "t.Skip", "b.Skip", "t.SkipNow":
				if len(c.Args) == 0 {
					at("a skipped test says why")
				}
			case "http.HandleFunc", "http.Handle", "prometheus.MustRegister":
				at("no globals")
			}
		})
	}
}
