package delivery

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Explain gives all that the authority of a user holds of it.
func (d *Delivery) Explain(ctx context.Context, uid schema.UID) (schema.Explanation, error) {
	if err := uid.Check(); err != nil {
		return schema.Explanation{}, bad("%w", err)
	}
	m, err := d.open(ctx)
	if err != nil {
		return schema.Explanation{}, err
	}
	return m.client.Explain(ctx, uid)
}

// Nodes gives the processes that the bucket names, dead ones too, authorities first, by name.
func (d *Delivery) Nodes(ctx context.Context) ([]schema.ProcessStatus, error) {
	m, err := d.ready(ctx)
	if err != nil {
		return nil, err
	}
	list := []schema.ProcessStatus{}
	for _, role := range [...]lease.Role{lease.Authority, lease.Gateway} {
		for _, member := range m.view.Members(role) {
			v := member.Value
			list = append(list, schema.ProcessStatus{
				Role: string(role), Node: member.Process.Node, Boot: member.Process.Boot, State: v.State, Version: v.Version,
				Addresses: v.Addresses, Sessions: v.Sessions, RenewedMS: member.Quiet.Milliseconds(),
			})
		}
	}
	return list, nil
}

// Slots gives every slot, as its authority says it is, and the processes, with how many slots wait for each
// gateway. It names the authorities that have said nothing in statusWait.
func (d *Delivery) Slots(ctx context.Context) (schema.SlotsReply, error) {
	nodes, err := d.Nodes(ctx)
	if err != nil {
		return schema.SlotsReply{}, err
	}
	reports, missing := d.reports(ctx)
	said := map[schema.Target]schema.SlotStatus{}
	for _, r := range reports {
		for _, s := range r.Slots {
			said[schema.Target{Slot: s.Slot, Fence: s.Fence, Authority: schema.Process(r.Process)}] = s
		}
	}
	slots := make([]schema.SlotStatus, schema.Slots)
	for i := range slots {
		slots[i] = slotStatus(d.mesh.view, schema.Slot(i), said)
	}
	countBacklogs(nodes, reports)
	return schema.SlotsReply{Slots: slots, Processes: nodes, Missing: missing}, nil
}

// countBacklogs counts, for each gateway, the slots that wait for its sync.
func countBacklogs(nodes []schema.ProcessStatus, reports []schema.StatusReport) {
	waiting := map[schema.NodeID]int{}
	for _, r := range reports {
		for node, n := range r.Backlog {
			waiting[node] += n
		}
	}
	for i := range nodes {
		if nodes[i].Role == string(lease.Gateway) {
			nodes[i].SyncBacklog = waiting[nodes[i].Node]
		}
	}
}

// slotStatus joins what the bucket says of a slot with what its owner said.
func slotStatus(v *lease.View, s schema.Slot, said map[schema.Target]schema.SlotStatus) schema.SlotStatus {
	t, owned := v.Target(s)
	if !owned {
		return schema.SlotStatus{Slot: s, Fence: t.Fence, State: schema.SlotUnowned}
	}
	status, ok := said[t]
	if !ok {
		status = schema.SlotStatus{State: schema.SlotUnreachable}
	}
	status.Slot, status.Owner, status.Boot, status.Fence = s, t.Authority.Node, t.Authority.Boot, t.Fence
	return status
}

// Stats counts who is online, by node and flag.
func (d *Delivery) Stats(ctx context.Context) (schema.StatsReply, error) {
	if _, err := d.ready(ctx); err != nil {
		return schema.StatsReply{}, err
	}
	reports, missing := d.reports(ctx)
	return sumUp(reports, missing), nil
}

func sumUp(reports []schema.StatusReport, missing []schema.NodeID) schema.StatsReply {
	type group struct {
		node schema.NodeID
		flag schema.Flag
	}
	by := map[group]int{}
	s := schema.StatsReply{Nodes: []schema.NodeCount{}, Missing: missing}
	for _, r := range reports {
		s.Users += r.Users
		for _, c := range r.Counts {
			by[group{c.Node, c.Flag}] += c.Sessions
			s.Sessions += c.Sessions
		}
	}
	for g, n := range by {
		s.Nodes = append(s.Nodes, schema.NodeCount{Node: g.node, Flag: g.flag, Sessions: n})
	}
	s.Nodes = schema.LargestCounts(s.Nodes)
	return s
}

// statusWait is how long an authority may take to say how its slots are. One that was just killed never
// answers, and must not keep up what the others say.
const statusWait = 500 * time.Millisecond

// reports asks all living authorities side by side; missing are those that did not answer in time.
func (d *Delivery) reports(ctx context.Context) (reports []schema.StatusReport, missing []schema.NodeID) {
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, member := range d.mesh.view.Members(lease.Authority) {
		if !member.Alive() {
			continue
		}
		wg.Go(func() {
			r, err := d.mesh.client.Status(ctx, member.Process)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				d.s.log.Debug("authority's status not known", "authority", member.Process, "err", err)
				missing = append(missing, member.Process.Node)
				return
			}
			reports = append(reports, r)
		})
	}
	wg.Wait()
	slices.Sort(missing)
	return reports, missing
}

// ready gives the mesh once its bucket has been read.
func (d *Delivery) ready(ctx context.Context) (*mesh, error) {
	m, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-m.view.Ready():
		return m, nil
	case <-d.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
