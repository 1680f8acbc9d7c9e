package arch_test

import (
	"slices"
	"strings"
	"testing"
)

// may says what of this module each package may import besides its own subpackages. cmd and
// integration may import all.
var may = map[string][]string{
	"schema":              {},
	"subjects":            {"schema"},
	"deploy":              {},
	"authority/directory": {"schema"},
	"authority/lease":     {"schema", "subjects"},
	"authority/client":    {"schema", "subjects", "authority/lease"},
	"authority":           {"schema", "subjects", "authority/lease", "authority/client", "authority/directory"},
	"gateway":             {"schema", "subjects", "authority/lease", "authority/client"},
	"gateway/client":      {"schema"},
	"delivery":            {"schema", "subjects", "authority/lease", "authority/client"},
}

// only names the packages, tests included, that may import what starts with the key.
var only = map[string][]string{
	"github.com/vmihailenco/msgpack":     {"schema"},
	"github.com/coder/websocket":         {"gateway"},
	"github.com/nats-io/nats-server":     {"cmd", "integration"},
	"github.com/alecthomas/kong":         {"cmd"},
	"go.yaml.in/yaml":                    {"cmd"},
	"github.com/synadia-io/orbit.go":     {"cmd"},
	"github.com/golang-jwt/jwt":          {"gateway", "cmd", "integration"},
	"github.com/MicahParks/keyfunc":      {"gateway"},
	"github.com/chromedp/chromedp":       {"cmd/app/page", "integration"},
	"github.com/stretchr/testify/assert": {},
}

// testsOnly is what no product code imports.
var testsOnly = []string{"testing", "github.com/stretchr/testify", "go.uber.org/goleak", "pgregory.net/rapid", "github.com/chromedp"}

// rule gives the entry of may for a package: that of the longest path above it.
func rule(path string) (allowed []string, owner string) {
	for name, list := range may {
		if under(path, name) && len(name) > len(owner) {
			allowed, owner = list, name
		}
	}
	return allowed, owner
}

func TestArrows(t *testing.T) {
	for _, p := range packages(t) {
		path := p.path()
		if under(path, "cmd", "integration") {
			continue
		}
		allowed, owner := rule(path)
		if owner == "" {
			t.Errorf("%s: a new package: say in this test what it may import", path)
			continue
		}
		for _, imp := range p.allImports() {
			to, ours := strings.CutPrefix(imp, module+"/")
			// Importing authority/lease is no leave to import authority.
			if !ours || slices.Contains(allowed, to) || ruledBy(to, owner) {
				continue
			}
			t.Errorf("%s imports %s", path, to)
		}
	}
}

// ruledBy reports whether path is owner itself or one of its parts without a rule of its own.
func ruledBy(path, owner string) bool {
	_, o := rule(path)
	return o == owner
}

func TestCmdIsOnlyMain(t *testing.T) {
	for _, p := range packages(t) {
		if p.path() != "cmd/rollcall" {
			continue
		}
		for _, imp := range p.Imports {
			if to, ours := strings.CutPrefix(imp, module+"/"); ours && to != "cmd/app" {
				t.Errorf("cmd/rollcall imports %s: wiring belongs into cmd/app", to)
			}
		}
	}
}

func TestOneImporter(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.allImports() {
			for prefix, allowed := range only {
				if strings.HasPrefix(imp, prefix) && !under(p.path(), allowed...) {
					t.Errorf("%s imports %s, which only %v may", p.path(), imp, allowed)
				}
			}
		}
	}
}

func TestProductImportsNoTestCode(t *testing.T) {
	for _, p := range packages(t) {
		if under(p.path(), "integration") {
			continue // its packages without _test are harnesses of tests
		}
		for _, imp := range p.Imports {
			if under(imp, testsOnly...) {
				t.Errorf("%s imports %s outside its tests", p.path(), imp)
			}
		}
	}
}
