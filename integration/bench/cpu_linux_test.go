package bench

import (
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// cpus is what this process and others have used of all processors, user and system, since they
// started.
func cpus(b *testing.B, of []*child) []time.Duration {
	b.Helper()
	used := []time.Duration{cpuOf(b, os.Getpid())}
	for _, c := range of {
		used = append(used, cpuOf(b, c.pid))
	}
	return used
}

// cpuOf reads the CPU-time clock of a process (clock_getcpuclockid(3)), which counts nanoseconds
// where /proc counts ticks of 10 ms.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	const cpuclockSched = 2
	clock := ^uint32(pid)<<3 | cpuclockSched
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(int32(clock)), uintptr(unsafe.Pointer(&t)), 0)
	require.Zero(b, errno, "CPU time of process %d", pid)
	return time.Duration(t.Nano())
}
