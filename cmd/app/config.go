package app

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// ConfigCmd are the commands about settings.
type ConfigCmd struct {
	Print ConfigPrintCmd `cmd:"" help:"Print what the flags, the environment and the config file come to, as a config file."`
	Check ConfigCheckCmd `cmd:"" help:"Check a config file."`
}

// ConfigPrintCmd prints the settings that a command would run with, and where each is from.
type ConfigPrintCmd struct {
	Args []string `arg:"" passthrough:"" name:"command" help:"A command with its flags: config print gateway --node gw-1."`
}

// Run prints them.
func (c *ConfigPrintCmd) Run(s *session) error {
	p, err := parse(s.withConfig(c.Args), s.out, s.err)
	if err != nil || p.helped {
		return err
	}
	for _, flag := range p.context.Flags() {
		if flag.Name == "help" || flag.Name == "config" {
			continue
		}
		if err := printSetting(s.out, p.context, flag); err != nil {
			return err
		}
	}
	return nil
}

// withConfig passes on the config file that was named before the command.
func (s *session) withConfig(args []string) []string {
	if s.cli.Config == "" {
		return args
	}
	return append([]string{"--config", string(s.cli.Config)}, args...)
}

func printSetting(w io.Writer, ctx *kong.Context, flag *kong.Flag) error {
	value := ctx.FlagValue(flag)
	list, several := value.([]string)
	switch secret := flag.Tag.Has("secret"); {
	case several && !secret:
		value = redacted(list)
	case secret && value != "" && (!several || len(list) > 0):
		value = "********"
	}
	b, err := yaml.Marshal(map[string]any{flag.Name: value})
	if err != nil {
		return fmt.Errorf("print %s: %w", flag.Name, err)
	}
	lines := bytes.SplitN(b, []byte("\n"), 2)
	_, err = fmt.Fprintf(w, "%-40s # %s\n%s", lines[0], origin(ctx, flag), lines[1])
	return err
}

// redacted hides the passwords of URLs.
func redacted(list []string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = text
		if u, err := url.Parse(text); err == nil && u.User != nil {
			out[i] = u.Redacted()
		}
	}
	return out
}

// origin says where a flag's value is from.
func origin(ctx *kong.Context, flag *kong.Flag) string {
	for _, path := range ctx.Path {
		if path.Flag == flag && path.Resolved {
			return "config file"
		}
		if path.Flag == flag {
			return "--" + flag.Name
		}
	}
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return "$" + name
		}
	}
	if len(flag.Envs) > 0 {
		return "default, $" + flag.Envs[0]
	}
	return "default"
}

// ConfigCheckCmd checks a config file without doing what it is for.
type ConfigCheckCmd struct {
	File string `arg:"" optional:"" type:"path" help:"The file. Default: that of --config."`
}

// checker is a command whose flags have rules beyond their form.
type checker interface{ check() error }

// Run checks the names and forms of all settings, and the rules of the roles that the file has a
// section for.
func (c *ConfigCheckCmd) Run(s *session) error {
	file := c.File
	if file == "" {
		file = string(s.cli.Config)
	}
	if file == "" {
		return fmt.Errorf("%w: name a file: rollcall config check FILE", errUsage)
	}
	f, err := readConfig(file)
	if err != nil {
		return err
	}
	for _, role := range []string{"demo", "gateway", "authority", "delivery", "all"} {
		p, err := parse([]string{"--config", file, role}, io.Discard, io.Discard)
		if err != nil {
			return err
		}
		checked, ok := p.context.Selected().Target.Addr().Interface().(checker)
		if entry(f.root, role) == nil || !ok {
			continue
		}
		if err := checked.check(); err != nil {
			return fmt.Errorf("%s: %s: %w", file, role, err)
		}
	}
	_, err = fmt.Fprintf(s.out, "%s: ok\n", strings.TrimSpace(file))
	return err
}

func readConfig(file string) (*configFile, error) {
	r, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w %s: %w", errUsage, errConfigFile, file, reason(err))
	}
	defer r.Close()
	resolver, err := loadConfig(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return resolver.(*configFile), nil
}
