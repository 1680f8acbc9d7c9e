package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"testing"

	"github.com/rollcall-mesh/rollcall/cmd/app"
)

// childVariable says which part a process of this program plays; in the first one it is not set.
const childVariable = "ROLLCALL_BENCH_CHILD"

// parts are the children: this program again, so that nothing but go test has to be built.
var parts = map[string]func(ctx context.Context, args []string) error{
	"rollcall": rollcall, // the product's command line
	"nats":     natsServer,
	"echo":     echo,
	"gateways": gateways,
	"clients":  clients,
}

func TestMain(m *testing.M) {
	part, child := os.LookupEnv(childVariable)
	if !child {
		code := m.Run()
		results.print(os.Stdout)
		os.Exit(code)
	}
	if err := profiled(part, func() error { return parts[part](untilOrphaned(), os.Args[1:]) }); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", part, err)
		os.Exit(1)
	}
}

// profileVariable names a folder in which each child leaves its CPU profile. The first process's is
// go test's -cpuprofile.
const profileVariable = "ROLLCALL_BENCH_PROFILES"

func profiled(part string, f func() error) error {
	folder := os.Getenv(profileVariable)
	if folder == "" {
		return f()
	}
	file, err := os.Create(filepath.Join(folder, fmt.Sprintf("%s-%d.prof", part, os.Getpid())))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}

// untilOrphaned gives a context that ends when the first process lets go of this one's standard
// input, however it ended.
func untilOrphaned() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel(io.EOF)
	}()
	return ctx
}

func rollcall(ctx context.Context, args []string) error {
	if code := app.Run(ctx, args, nil, os.Stdout, os.Stderr); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// ready tells the first process that this one can be used, and by what address.
func ready(address string) { fmt.Println("ready", address) }
