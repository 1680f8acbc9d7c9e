package swarm_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// plan is all that a seed decides: the mesh, its people, and what befalls them at which moment.
type plan struct {
	seed        uint64
	authorities int
	gateways    int
	config      schema.Config
	proofs      bool // the account imports the server's disconnect events
	disk        bool // the bucket outlives its server
	people      []someone
	steps       []step        // by time
	calm        time.Duration // when the faults stop
	lost        string        // a process that ends right before, and is not started again; empty: none
}

// someone is a user's device.
type someone struct {
	uid    schema.UID
	device schema.DeviceID
	flag   schema.Flag
	level  schema.Level
}

// step is one thing that befalls the mesh. What lasts is two of them.
type step struct {
	at   time.Duration
	what string // for people; empty: said with what it ends
	do   func(r *run)
}

// The faults begin when most of the mesh stands, and go on for so long.
const (
	firstFault  = 3 * time.Second
	faultsLeast = 30 * time.Second
	faultsMost  = 60 * time.Second
)

var policies = [...]string{
	"levels", "levels_reject_new", "single", "single_reject_new", "one_per_flag", "one_per_flag_reject_new", "multi",
}

// draw makes the plan of a seed: the same one each time.
func draw(seed uint64) *plan {
	d := newDice(seed, 0)
	p := &plan{seed: seed, authorities: 2 + d.IntN(2), gateways: 2 + d.IntN(2), config: schema.DefaultConfig()}
	p.config.Policy = pick(d, policies[:]...)
	if d.chance(50) {
		p.config.LeaseMS, p.config.HeartbeatMS, p.config.TTLMS = 9_000, 9_000, 27_000
	}
	p.proofs, p.disk = d.chance(50), d.chance(70)
	p.calm = firstFault + d.between(faultsLeast, faultsMost)
	for u := range 3 + d.IntN(3) {
		for range 1 + d.IntN(3) {
			p.people = append(p.people, someone{
				uid:    schema.UID(fmt.Sprintf("u%d", u)),
				device: pick(d, schema.DeviceID("d1"), "d2", ""),
				flag:   pick(d, schema.Flag("app"), "app", "web"),
				level:  pick(d, schema.Slave, schema.Master),
			})
		}
	}
	for n := range p.people {
		p.befallPerson(d, n)
	}
	p.befallNetwork(d)
	p.befallProcesses(d)
	p.lose(d)
	p.stage(newDice(seed, 3))
	slices.SortStableFunc(p.steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return p
}

func (p *plan) add(at time.Duration, what string, do func(r *run)) {
	p.steps = append(p.steps, step{at, what, do})
}

// uids gives the users.
func (p *plan) uids() (uids []schema.UID) {
	for _, who := range p.people {
		if !slices.Contains(uids, who.uid) {
			uids = append(uids, who.uid)
		}
	}
	return uids
}

// nodes names the processes.
func (p *plan) nodes() (nodes []string) {
	for n := range p.authorities {
		nodes = append(nodes, fmt.Sprintf("a-%d", n+1))
	}
	for n := range p.gateways {
		nodes = append(nodes, fmt.Sprintf("gw-%d", n+1))
	}
	return nodes
}

// String lists the plan, a line a step.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d authorities, %d gateways, policy %s, lease %v, disconnect events %v, bucket on disk %v, calm at %v\n",
		p.seed, p.authorities, p.gateways, p.config.Policy, p.config.Lease(), p.proofs, p.disk, p.calm)
	for n, who := range p.people {
		fmt.Fprintf(&b, "  person %d: %s on %q, %s, %s\n", n, who.uid, string(who.device), who.flag, who.level)
	}
	for _, s := range p.steps {
		if s.what != "" && s.at < p.calm {
			fmt.Fprintf(&b, "  %8.3fs %s\n", s.at.Seconds(), s.what)
		}
	}
	return b.String()
}

// dice draws; each purpose has its own, so that none changes what another draws.
type dice struct{ *rand.Rand }

func newDice(seed, purpose uint64) *dice { return &dice{rand.New(rand.NewPCG(seed, purpose))} }

func (d *dice) chance(percent int) bool { return d.IntN(100) < percent }

func (d *dice) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(d.Int64N(int64(most-least)))).Round(time.Millisecond)
}

func pick[T any](d *dice, of ...T) T { return of[d.IntN(len(of))] }

// TestSameSeedSamePlan draws plans twice.
func TestSameSeedSamePlan(t *testing.T) {
	for seed := range uint64(50) {
		require.Equal(t, draw(seed).String(), draw(seed).String())
		require.NotEqual(t, draw(seed).String(), draw(seed+1).String())
	}
}
