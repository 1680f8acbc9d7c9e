package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// child is a process that plays one part.
type child struct {
	name    string
	pid     int
	address string // where it said that it is ready; empty for the product
	cmd     *exec.Cmd
	stdin   io.Closer
}

// spawn starts a part; it ends with the benchmark. What it logs is shown when the benchmark fails.
func spawn(b *testing.B, part string, args ...string) *child {
	b.Helper()
	self, err := os.Executable()
	require.NoError(b, err)
	log, err := os.Create(filepath.Join(b.TempDir(), part+".log"))
	require.NoError(b, err)
	name := part
	if part == "rollcall" {
		name = args[0]
	}
	c := &child{name: name, cmd: exec.Command(self, args...)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+part)
	c.cmd.Stderr = log
	c.stdin, err = c.cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, c.cmd.Start())
	c.pid = c.cmd.Process.Pid
	b.Cleanup(func() { c.end(b, log) })
	if part != "rollcall" {
		c.waitReady(b, stdout)
	}
	go io.Copy(io.Discard, stdout) // ends with the child
	return c
}

// waitReady reads the first line, which names the address.
func (c *child) waitReady(b *testing.B, stdout io.Reader) {
	late := time.AfterFunc(time.Minute, func() { c.cmd.Process.Kill() })
	defer late.Stop()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(b, err, "%s did not start", c.name)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	require.True(b, ok, "%s said %q", c.name, line)
	c.address = address
}

func (c *child) end(b *testing.B, log *os.File) {
	c.stdin.Close()
	kill := time.AfterFunc(20*time.Second, func() { c.cmd.Process.Kill() })
	c.cmd.Wait() // how it ended does not matter
	kill.Stop()
	if b.Failed() {
		text, _ := os.ReadFile(log.Name())
		fmt.Fprintf(os.Stderr, "---- %s\n%s", c.name, text[max(0, len(text)-4000):])
	}
	log.Close()
}

// rss is a process's resident memory in bytes.
func (c *child) rss(b *testing.B) uint64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	require.NoError(b, err)
	for line := range strings.Lines(string(status)) {
		var kb uint64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	require.Fail(b, "no VmRSS", "%s", status)
	return 0
}
