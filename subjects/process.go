package subjects

import "github.com/rollcall-mesh/rollcall/schema"

// AuthorityOp is a request that an authority process answers for itself or all its slots.
type AuthorityOp string

// The requests to an authority process.
const (
	Lookup  AuthorityOp = "lookup"
	Explain AuthorityOp = "explain"
	Status  AuthorityOp = "status"
	Drain   AuthorityOp = "drain"
)

// Authority is where an authority process answers op: authority.<node>.<boot>.<op>.
func (p Prefix) Authority(a schema.Process, op AuthorityOp) string {
	return p.process("authority", a, string(op))
}

// AuthorityAll is what an authority process subscribes to.
func (p Prefix) AuthorityAll(a schema.Process) string { return p.Authority(a, "*") }

// ParseAuthority reads the operation of a request to an authority process.
func (p Prefix) ParseAuthority(subject string) (AuthorityOp, bool) {
	parts, ok := p.split(subject, "authority", 4)
	if !ok || parts[3] == "" {
		return "", false
	}
	return AuthorityOp(parts[3]), true
}

// Sessions is where a gateway process tells of its sessions: gateway.<node>.<boot>.sessions.
func (p Prefix) Sessions(g schema.Process) string { return p.process("gateway", g, "sessions") }

// DrainGateway is where a gateway process is asked to drain: gateway.<node>.<boot>.drain.
func (p Prefix) DrainGateway(g schema.Process) string { return p.process("gateway", g, "drain") }

// DrainAuthority is where an authority process is asked to drain: authority.<node>.<boot>.drain.
func (p Prefix) DrainAuthority(a schema.Process) string { return p.Authority(a, Drain) }

// Push is where a gateway process takes messages for its sessions: push.<node>.<boot>.
func (p Prefix) Push(g schema.Process) string { return p.process("push", g) }

// Kick is where a gateway process takes kicks: kick.<node>.<boot>.
func (p Prefix) Kick(g schema.Process) string { return p.process("kick", g) }

// Revoke is where all gateways hear of a revoked device or token.
func (p Prefix) Revoke() string { return p.join("revoke") }

func (p Prefix) process(what string, x schema.Process, op ...string) string {
	return p.join(append([]string{what, string(x.Node), string(x.Boot)}, op...)...)
}
