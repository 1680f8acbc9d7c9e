package sessions_test

import (
	"testing"

	"github.com/rollcall-mesh/rollcall/integration/process"
)

func TestMain(m *testing.M) { process.Main(m) }
