package app

import (
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// LookupCmd asks where users are.
type LookupCmd struct {
	Asking
	UIDs  []string      `arg:"" name:"uid" help:"Users; - reads them from standard input, one a line."`
	Seen  bool          `name:"last-seen" help:"Say of those who are offline when they were last there."`
	Await time.Duration `name:"await" placeholder:"DURATION" help:"Wait so long for slots that are being rebuilt."`
}

// Run prints a line for each device; a user without one has a line too.
func (c *LookupCmd) Run(s *session) error {
	uids, err := s.uids(c.UIDs)
	if err != nil {
		return err
	}
	a, err := s.asker()
	if err != nil {
		return err
	}
	defer a.close()
	users, err := a.lookup(uids, c.Seen, c.Await, c.Timeout)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(s.out, users...)
	} else {
		err = printUsers(s, users)
	}
	if err != nil {
		return err
	}
	return unknowns(users)
}

// lookup asks for any number of users, as many calls as that takes.
func (a *asker) lookup(uids []schema.UID, seen bool, await, timeout time.Duration) ([]schema.UserReply, error) {
	var users []schema.UserReply
	for len(uids) > 0 {
		some := uids[:min(len(uids), schema.MaxCallUIDs)]
		var reply schema.LookupReply
		request := schema.LookupCall{UIDs: some, AwaitMS: await.Milliseconds(), LastSeen: seen}
		if err := a.call("lookup", request, &reply, timeout+await); err != nil {
			return nil, err
		}
		answered, err := progress(reply.Next, len(some))
		if err != nil {
			return nil, fmt.Errorf("lookup: %w", err)
		}
		users, uids = append(users, reply.Results...), uids[answered:]
	}
	return users, nil
}

// progress is how many of the uids of a call were answered: all, or those before next.
func progress(next, asked int) (int, error) {
	if next == 0 {
		return asked, nil
	}
	if next < 0 || next > asked {
		return 0, fmt.Errorf("the service answered up to index %d of %d", next, asked)
	}
	return next, nil
}

func printUsers(s *session, users []schema.UserReply) error {
	t := newTable(s.out, "UID", "STATE", "DEVICE", "FLAG", "LEVEL", "NODE", "LISTENER", "CONNECTED", "ACTIVE", "TTL", "SESSION")
	for _, u := range users {
		state := state(u.State, u.Why)
		switch {
		case u.Partial:
			state += " (partial)"
		case u.Suspect:
			state += " (suspect)"
		}
		switch {
		case u.LastSeen != "":
			state += " since " + u.LastSeen
		case u.LastSeenWhy != "":
			state += " (" + u.LastSeenWhy + ")"
		}
		if len(u.Routes) == 0 {
			t.row(u.UID, state, "", "", "", "", "", "", "", "", "")
		}
		for _, r := range u.Routes {
			t.row(u.UID, state, r.Device, r.Flag, r.Level, r.Node, r.Listener, ago(r.ConnectedMS), ago(r.ActiveMS), ago(r.TTLMS), r.Session)
		}
	}
	return t.flush()
}

// ago prints milliseconds as people read them.
func ago(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// unknowns is errUnknown where the state of a user could not be told.
func unknowns(users []schema.UserReply) error {
	n := 0
	for _, u := range users {
		if u.State == schema.Unknown {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("%w: %d of %d users", errUnknown, n, len(users))
	}
	return nil
}
