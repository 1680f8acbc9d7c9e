package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// errConfigFile is returned when the config file itself is wrong; it comes with errUsage.
var errConfigFile = errors.New("config file")

// configFile holds settings under the flags' names, YAML or JSON. A mapping under a command's name
// holds for that command alone and wins over the top:
//
//	nats: nats://n1:4222
//	gateway:
//	  node: gw-1
//	  listen: [ws=0.0.0.0:8080]
type configFile struct {
	name string
	root *yaml.Node // a mapping
}

// loadConfig is kong's loader for --config.
func loadConfig(r io.Reader) (kong.Resolver, error) {
	f := &configFile{name: "config"}
	if named, ok := r.(interface{ Name() string }); ok {
		f.name = named.Name()
	}
	var doc yaml.Node
	err := yaml.NewDecoder(r).Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		f.root = &yaml.Node{Kind: yaml.MappingNode}
		return f, nil
	case err != nil:
		return nil, fmt.Errorf("%w %s: %w", errConfigFile, f.name, err)
	}
	f.root = doc.Content[0]
	if f.root.Kind != yaml.MappingNode {
		return nil, f.wrong(f.root, "settings are written name: value")
	}
	return f, nil
}

func (f *configFile) wrong(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%w %s:%d: %s", errConfigFile, f.name, n.Line, fmt.Sprintf(format, args...))
}

// Resolve gives a flag's value for the command that was chosen; nil where the file does not say, or
// the environment does: it goes before the file.
func (f *configFile) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return nil, nil
		}
	}
	for _, section := range f.sections(ctx.Selected()) {
		if value := entry(section, flag.Name); value != nil && value.Kind != yaml.MappingNode {
			return f.value(value)
		}
	}
	return nil, nil
}

// sections are the mappings that hold for a command, its own first.
func (f *configFile) sections(n *kong.Node) []*yaml.Node {
	if n == nil || n.Type == kong.ApplicationNode {
		return []*yaml.Node{f.root}
	}
	above := f.sections(n.Parent)
	if own := entry(above[0], n.Name); own != nil && own.Kind == yaml.MappingNode {
		return append([]*yaml.Node{own}, above...)
	}
	return above
}

// entry finds a key; listen_on and listen-on are the same.
func entry(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if settingName(mapping.Content[i]) == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func settingName(key *yaml.Node) string { return strings.ReplaceAll(key.Value, "_", "-") }

func (f *configFile) value(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, nil
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, f.wrong(item, "a list holds plain values")
			}
			list[i] = item.Value
		}
		return list, nil
	}
	return nil, f.wrong(n, "neither a value nor a list")
}

// Validate names the first setting that no command knows.
func (f *configFile) Validate(app *kong.Application) error {
	return f.check(f.root, app.Node, flagNames(app.Node))
}

func (f *configFile) check(section *yaml.Node, node *kong.Node, known map[string]bool) error {
	for i := 0; i+1 < len(section.Content); i += 2 {
		key, value := section.Content[i], section.Content[i+1]
		if child := command(node, settingName(key)); child != nil && value.Kind == yaml.MappingNode {
			if err := f.check(value, child, known); err != nil {
				return err
			}
			continue
		}
		if !known[settingName(key)] {
			return f.wrong(key, "unknown setting %q (rollcall COMMAND --help names them)", key.Value)
		}
	}
	return nil
}

func command(n *kong.Node, name string) *kong.Node {
	for _, child := range n.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// flagNames are those of a node and of all below it.
func flagNames(n *kong.Node) map[string]bool {
	known := make(map[string]bool)
	for _, flag := range n.Flags {
		known[flag.Name] = true
	}
	for _, child := range n.Children {
		for name := range flagNames(child) {
			known[name] = true
		}
	}
	delete(known, "help")
	delete(known, "config")
	return known
}
