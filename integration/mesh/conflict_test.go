package mesh_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// fate is what a login does to a session that stands: the cells of the policies' tables.
type fate string

const (
	stays    fate = "stays"
	replaced fate = "replaced" // the old one is closed with 3503
	kicked   fate = "kicked"   // the old one is closed with 3502
	refused  fate = "refused"  // the new one is closed with 3504
)

// tables say for each policy what becomes of a session when another login of the user comes:
// by the login's level, then by how it stands to the session.
var tables = map[string]map[schema.Level][3]fate{
	"levels":       {schema.Master: {replaced, kicked, stays}, schema.Slave: {replaced, stays, stays}},
	"single":       {schema.Master: {replaced, kicked, kicked}, schema.Slave: {replaced, kicked, kicked}},
	"one_per_flag": {schema.Master: {replaced, kicked, stays}, schema.Slave: {replaced, kicked, stays}},
	"multi":        {schema.Master: {replaced, stays, stays}, schema.Slave: {replaced, stays, stays}},
}

// cell is one login against one session.
type cell struct {
	name  string
	level schema.Level // of the session that stands; it does not matter
	login func(old schema.SessionID) []func(*schema.ClientFrame)
	want  fate
}

func login(f ...func(*schema.ClientFrame)) func(schema.SessionID) []func(*schema.ClientFrame) {
	return func(schema.SessionID) []func(*schema.ClientFrame) { return f }
}

// cells gives all that a policy has to decide. The session that stands is of device d1, flag app.
func cells(policy string) (all []cell) {
	base, reject := strings.CutSuffix(policy, "_reject_new")
	for level, row := range tables[base] {
		want := row
		for i, f := range row {
			if reject && f == kicked {
				want[i] = refused
			}
		}
		for _, stands := range []schema.Level{schema.Slave, schema.Master} {
			name := func(what string) string { return fmt.Sprintf("%s over %s, %s", level, stands, what) }
			all = append(all,
				cell{name("same device"), stands, login(mesh.As("d1", "app", level)), want[0]},
				cell{name("other device"), stands, login(mesh.As("d2", "app", level)), want[1]},
				cell{name("device without id"), stands, login(mesh.As("", "app", level)), want[1]},
				cell{name("other flag"), stands, login(mesh.As("d2", "web", level)), want[2]},
				cell{name("same id, other flag"), stands, login(mesh.As("d1", "web", level)), want[2]},
				cell{name("resumes, other device"), stands, func(old schema.SessionID) []func(*schema.ClientFrame) {
					return login(mesh.As("d2", "web", level), mesh.Resume(old))("")
				}, replaced},
			)
		}
	}
	return all
}

func TestConflicts(t *testing.T) {
	for _, base := range slices.Sorted(maps.Keys(tables)) {
		for _, policy := range []string{base, base + "_reject_new"} {
			t.Run(policy, func(t *testing.T) {
				mesh.Run(t, mesh.Options{Config: func(c *schema.Config) { c.Policy = policy }}, func(t *testing.T, m *mesh.Mesh) {
					for i, c := range cells(policy) {
						for n, second := range m.Gateways {
							uid := schema.UID(fmt.Sprintf("user-%d-%d", i, n))
							conflict(t, m, uid, second, c)
						}
					}
				})
			})
		}
	}
}

// conflict plays a cell with the session on the first gateway and the login on second.
func conflict(t *testing.T, m *mesh.Mesh, uid schema.UID, second *mesh.Gateway, c cell) {
	where := fmt.Sprintf("%s, on %s", c.name, second.Node)
	old := m.Gateways[0].Enter(uid, mesh.As("d1", "app", c.level))
	id, _ := old.Current()
	fresh := second.Hello(uid, c.login(id)...)
	if c.want == refused {
		isRefused(t, fresh, where)
	} else {
		fresh.Connected()
	}
	switch c.want {
	case replaced:
		require.Equal(t, schema.CloseReplaced, old.Ended().Code, where)
	case kicked:
		require.Equal(t, schema.CloseKicked, old.Ended().Code, where)
	default:
		m.Pass(100 * time.Millisecond)
		require.True(t, old.Open(), where)
	}
	m.Truth(uid)
}

// isRefused checks that a login is refused by policy: an error frame says why, 3504 follows.
func isRefused(t *testing.T, s *mesh.Socket, where string) {
	t.Helper()
	end := s.Ended()
	require.Equal(t, schema.CloseRefused, end.Code, where)
	require.NotEmpty(t, end.Reason, where)
	frames := s.Frames()
	require.Len(t, frames, 1, where)
	hint := frames[0].ServerFrame
	require.Equal(t, schema.FrameNotAllowed, hint.Code, where)
	require.Equal(t, schema.CloseRefused, hint.Close, where)
	require.Equal(t, end.Reason, hint.Message, where)
	require.False(t, hint.Retryable, where)
}

// TestManyConflictsAtOnce has one login put out sessions on both gateways.
func TestManyConflictsAtOnce(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: func(c *schema.Config) { c.Policy = "multi" }}, func(t *testing.T, m *mesh.Mesh) {
		var all []*mesh.Socket
		for i := range 6 {
			device := schema.DeviceID(fmt.Sprintf("d%d", i))
			all = append(all, m.Gateways[i%2].Enter("alice", mesh.As(device, "app", schema.Slave)))
		}
		m.Truth("alice")
		m.Configure(func(c *schema.Config) { c.Policy = "single" })
		m.Gateways[0].Enter("alice", mesh.As("d2", "app", schema.Slave))
		for i, s := range all {
			want := schema.CloseKicked
			if i == 2 {
				want = schema.CloseReplaced
			}
			require.Equal(t, want, s.Ended().Code, "session %d", i)
		}
		m.Truth("alice")
	})
}

// TestTooManySessions bounds a user's sessions: a login above that is refused, unless it takes one
// out itself.
func TestTooManySessions(t *testing.T) {
	few := func(c *schema.Config) { c.Policy, c.MaxSessions = "multi", 3 }
	mesh.Run(t, mesh.Options{Config: few}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		first := one.Enter("alice", mesh.As("d1", "app", schema.Slave))
		two.Enter("alice", mesh.As("d2", "app", schema.Slave))
		two.Enter("alice", mesh.As("", "app", schema.Slave))
		for _, g := range m.Gateways {
			isRefused(t, g.Hello("alice", mesh.As("d4", "app", schema.Master)), "one too many")
		}
		two.Enter("alice", mesh.As("d1", "app", schema.Slave))
		require.Equal(t, schema.CloseReplaced, first.Ended().Code)
		m.Truth("alice")
	})
}

// TestOlderLogin refuses a login of a lower generation than a session in its way, and only such.
func TestOlderLogin(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		stands := one.Enter("alice", mesh.As("d1", "app", schema.Master), mesh.Gen(2))
		for _, g := range m.Gateways {
			isRefused(t, g.Hello("alice", mesh.As("d1", "app", schema.Master), mesh.Gen(1)), "same device")
			isRefused(t, g.Hello("alice", mesh.As("d2", "app", schema.Master), mesh.Gen(1)), "other device")
		}
		two.Enter("alice", mesh.As("d2", "web", schema.Master), mesh.Gen(1))
		m.Truth("alice")
		two.Enter("alice", mesh.As("d1", "app", schema.Master), mesh.Gen(2))
		require.Equal(t, schema.CloseReplaced, stands.Ended().Code)
		m.Truth("alice")
	})
}
