package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// silent is errUnknown where authorities have not answered.
func silent(missing []schema.NodeID, so string) error {
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: no answer from %s, %s", errUnknown, join(missing), so)
}

func join[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = string(item)
	}
	return strings.Join(texts, " ")
}

// NodesCmd shows the processes of the mesh.
type NodesCmd struct{ Asking }

// Run prints a line for each process that the bucket names.
func (c *NodesCmd) Run(s *session) error {
	reply, err := query[schema.SlotsReply](s, "slots", struct{}{}, c.Timeout)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, reply.Processes...)
	}
	owned := make(map[schema.NodeID]int)
	for _, slot := range reply.Slots {
		owned[slot.Owner]++
	}
	t := newTable(s.out, "ROLE", "NODE", "STATE", "RENEWED", "SLOTS", "SESSIONS", "BACKLOG", "ADDRESSES", "VERSION", "BOOT")
	for _, p := range reply.Processes {
		slots, sessions, backlog := "", "", ""
		if p.Role == string(lease.Gateway) {
			sessions, backlog = fmt.Sprint(p.Sessions), fmt.Sprint(p.SyncBacklog)
		} else {
			slots = fmt.Sprint(owned[p.Node])
		}
		t.row(p.Role, p.Node, p.State, ago(p.RenewedMS), slots, sessions, backlog, join(p.Addresses), p.Version, p.Boot)
	}
	return t.flush()
}

// StatsCmd counts who is online.
type StatsCmd struct{ Asking }

// Run prints the sum, then a line for each gateway and flag.
func (c *StatsCmd) Run(s *session) error {
	reply, err := query[schema.StatsReply](s, "stats", struct{}{}, c.Timeout)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(s.out, reply)
	} else {
		fmt.Fprintf(s.out, "%d users, %d sessions\n", reply.Users, reply.Sessions)
		t := newTable(s.out, "NODE", "FLAG", "SESSIONS")
		for _, n := range reply.Nodes {
			t.row(n.Node, n.Flag, n.Sessions)
		}
		err = t.flush()
	}
	if err == nil {
		err = silent(reply.Missing, "whose slots are not counted")
	}
	return err
}

// ExplainCmd shows all that the authority holds of a user.
type ExplainCmd struct {
	Asking
	UID schema.UID `arg:"" name:"uid" help:"The user."`
}

// Run prints it.
func (c *ExplainCmd) Run(s *session) error {
	if err := c.UID.Check(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	e, err := query[schema.Explanation](s, "explain", schema.ExplainCall{UID: c.UID}, c.Timeout)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, e)
	}
	fmt.Fprintf(s.out, "%s is of slot %d, owned by %s (boot %s) at fence %d: %s\n", printable(string(e.UID)), e.Slot, e.Owner, e.Boot, e.Fence, e.State)
	return printExplanation(s, &e)
}

func printExplanation(s *session, e *schema.Explanation) error {
	t := newTable(s.out, "ROUTE", "STATE", "DEVICE", "FLAG", "LEVEL", "NODE", "GEN", "SEQ", "ORDER", "CONNECTED", "ACTIVE", "TTL")
	for _, r := range e.Routes {
		t.row(r.Session, r.State, r.Device, r.Flag, r.Level, r.Node, r.Gen, r.Seq, fmt.Sprintf("%d/%d", r.Order.Fence, r.Order.N),
			ago(r.ConnectedMS), ago(r.ActiveMS), ago(r.TTLMS))
	}
	for _, tomb := range e.Tombstones {
		t.row(tomb.Session, tomb.Kind, "", "", "", tomb.Node, "", tomb.Seq, "", "", "", "")
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, no := range e.Refusals {
		since := (time.Duration(no.AgoMS) * time.Millisecond).Round(time.Millisecond)
		fmt.Fprintf(s.out, "refused %s ago: session %s of %s: %s %s\n", since, no.Session, no.Node, no.Code, printable(no.Why))
	}
	return nil
}
