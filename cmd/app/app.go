package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/alecthomas/kong"
)

// Run is the program: it does what args say until that is done or ctx ends, and gives the exit
// code. Errors are one line on stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &session{ctx: ctx, in: stdin, out: stdout, err: stderr}
	err := s.run(args)
	report(stderr, err)
	return exitCode(err)
}

// session is one run of the program, as a command sees it.
type session struct {
	ctx context.Context
	in  io.Reader
	out io.Writer
	err io.Writer
	cli *CLI
}

func (s *session) run(args []string) error {
	p, err := parse(args, s.out, s.err)
	if err != nil || p.helped {
		return err
	}
	s.cli = p.cli
	return p.context.Run(s)
}

func (s *session) log(otherwise slog.Level) *slog.Logger { return s.cli.logger(s.err, otherwise) }

// parsed is a command line that was understood.
type parsed struct {
	cli     *CLI
	context *kong.Context
	helped  bool // --help was asked for and given: nothing is left to do
}

// parse reads a command line, the environment and the config file named there.
func parse(args []string, stdout, stderr io.Writer) (*parsed, error) {
	p := &parsed{cli: &CLI{}}
	parser, err := kong.New(p.cli,
		kong.Name("rollcall"),
		kong.Description("Who is connected where, on NATS: presence and push for many WebSocket gateways."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { p.helped = true }),
		kong.DefaultEnvars("ROLLCALL"),
		kong.Configuration(loadConfig),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, NoExpandSubcommands: true}),
		kong.ExplicitGroups(groups),
		kong.Help(printHelp),
	)
	if err != nil {
		return nil, fmt.Errorf("command line grammar: %w", err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	p.context, err = parser.Parse(args)
	if p.helped {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w%s", errUsage, plain(err), helpHint(err))
	}
	return p, nil
}

// plain takes the type off a parse error, which says nothing to a person.
func plain(err error) error {
	if p, ok := errors.AsType[*kong.ParseError](err); ok {
		return p.Unwrap()
	}
	return err
}

// helpHint names the help of the command that was being read.
func helpHint(err error) string {
	if errors.Is(err, errConfigFile) {
		return ""
	}
	command := ""
	if p, ok := errors.AsType[*kong.ParseError](err); ok && p.Context != nil {
		if c := p.Context.Command(); c != "" {
			command = c + " "
		}
	}
	return fmt.Sprintf(" (rollcall %s--help explains)", command)
}
