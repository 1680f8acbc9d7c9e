package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// patience is how long a test waits for what should happen at once, on a busy machine.
const patience = 20 * time.Second

// program is the built binary: one a test program, made by Main.
var program string

// Main builds the program, runs the tests and fails on a leaked goroutine. In a process that
// StartNATS has started it is the NATS server instead.
func Main(m *testing.M) {
	if store := os.Getenv(natsVariable); store != "" {
		os.Exit(runNATS(store))
	}
	dir, err := os.MkdirTemp("", "rollcall-test-")
	if err == nil {
		program = filepath.Join(dir, "rollcall")
		err = build(program)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func build(to string) error {
	out, err := exec.Command("go", "build", "-o", to, "github.com/rollcall-mesh/rollcall/cmd/rollcall").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return nil
}

// Process is a running program.
type Process struct {
	t       *testing.T
	cmd     *exec.Cmd
	name    string
	reading sync.WaitGroup
	ended   chan struct{} // closed when the process is gone and all it said was read

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced at each new line
}

// Env are variables for a process, NAME=value.
type Env []string

// Start starts the program.
func Start(t *testing.T, args ...string) *Process { return StartWith(t, nil, args...) }

// StartWith starts the program with variables added to this process's own. What the tests' own
// environment says of NATS and rollcall is left out.
func StartWith(t *testing.T, env Env, args ...string) *Process {
	t.Helper()
	return start(t, args[0], exec.Command(program, args...), env)
}

func start(t *testing.T, name string, cmd *exec.Cmd, env Env) *Process {
	t.Helper()
	p := &Process{t: t, name: name, cmd: cmd, more: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Env = append(cleanEnv(), env...)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.reading.Go(func() { p.read(stdout) })
	p.reading.Go(func() { p.read(stderr) })
	go func() {
		p.reading.Wait()
		_ = p.cmd.Wait() // its code is asked of ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // one that has ended says so
		<-p.ended
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name, strings.Join(p.Said(), "\n"))
		}
	})
	return p
}

func cleanEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "NATS_") && !strings.HasPrefix(e, "ROLLCALL_") {
			env = append(env, e)
		}
	}
	return env
}

func (p *Process) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

// Said gives the lines so far.
func (p *Process) Said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines[:len(p.lines):len(p.lines)]
}

// Line waits for a line that holds text, and gives it.
func (p *Process) Line(text string) string {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		lines, more := p.lines, p.more
		p.mu.Unlock()
		for _, line := range lines {
			if strings.Contains(line, text) {
				return line
			}
		}
		select {
		case <-more:
		case <-p.ended:
			require.Contains(p.t, strings.Join(p.Said(), "\n"), text, "%s has ended without saying it", p.name)
		case <-deadline:
			require.FailNow(p.t, p.name+" does not say "+text, strings.Join(lines, "\n"))
		}
	}
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// Wait waits for the end and gives the exit code; -1 where a signal ended it.
func (p *Process) Wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.FailNow(p.t, p.name+" does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Stop ends a process as an operator does, and requires that it ends well.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	require.Zero(p.t, p.Wait())
}

// Result is what a program that has ended has left.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs the program to its end, with stdin.
func Run(t *testing.T, env Env, stdin string, args ...string) Result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(cleanEnv(), env...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		require.NoError(t, err)
	}
	return Result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}
