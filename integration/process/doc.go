// Package process runs the built program as an operator does: real processes, real ports, signals.
//
//	func TestMain(m *testing.M) { process.Main(m) }        // builds bin once, removes it at the end
//
//	demo := process.Start(t, "demo", "--listen", "127.0.0.1:0")
//	demo.Line("ready in")                                  // waits for a line of its output
//	demo.Signal(syscall.SIGKILL)
//	code := demo.Wait()
//
//	server := process.StartNATS(t)                         // deploy/nats.conf, in a process of its own
//	process.StartWith(t, server.As(deploy.Gateway), "gateway", "--node", "gw-1")
//	process.Eventually(t, time.Second, "it listens", func() bool { ... })
//
// Each process is killed at the end of its test, if it still runs. Its lines go to the test's log
// when the test fails. Secrets are given with Env, never as arguments.
//
// Goroutines: two a process, which read its output until it ends; Wait waits for them.
package process
