// Command rollcall is the whole mesh in one binary: the roles, and the commands for people.
// Package cmd/app does the work; rollcall --help lists it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/rollcall-mesh/rollcall/cmd/app"
)

func main() { os.Exit(run()) }

// run ends the program's context at the first signal; the second one ends the process at once.
func run() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(app.ExitInterrupted)
	}()
	return app.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
