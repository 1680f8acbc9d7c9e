package mesh_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // a mesh has 10 MB: collecting at each 10 more takes a third of the run
	goleak.VerifyTestMain(m)
}
