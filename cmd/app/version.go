package app

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// VersionCmd prints what this program is made of.
type VersionCmd struct{}

// Run prints it.
func (VersionCmd) Run(s *session) error {
	_, err := fmt.Fprintf(s.out, "rollcall %s, format %d, %d slots (%s, nats.go %s, nats-server %s)\n",
		version(), schema.Format, schema.Slots, runtime.Version(), nats.Version, server.VERSION)
	return err
}

// semver gives a version as services of NATS want it, 1.2.3 and no other form; empty where it is
// another.
func semver(v string) string {
	v = strings.TrimPrefix(v, "v")
	if parts := strings.Split(v, "."); len(parts) != 3 || strings.Trim(v, "0123456789.") != "" {
		return ""
	}
	return v
}

// version is the module's version or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) > 12 {
			return setting.Value[:12]
		}
	}
	return "devel"
}
