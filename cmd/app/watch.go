package app

import (
	"context"
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/schema"
)

// WatchCmd follows users.
type WatchCmd struct {
	Asking
	UIDs []string `arg:"" name:"uid" help:"Users; - reads them from standard input, one a line."`
}

// Run prints the state of each user, then each change, until it is ended.
func (c *WatchCmd) Run(s *session) error {
	uids, err := s.uids(c.UIDs)
	if err != nil {
		return err
	}
	if len(uids) == 0 {
		return fmt.Errorf("%w: name at least one user", errUsage)
	}
	a, err := s.asker()
	if err != nil {
		return err
	}
	defer a.close()
	look := func(_ context.Context, uids []schema.UID) ([]delivery.Found, error) { return a.find(uids, c.Timeout) }
	for seen, err := range delivery.WatchBy(a.ctx, a.nc, string(a.prefix), look, uids) {
		if err == nil && seen.Kind != delivery.Resync {
			err = c.print(s, seen.WatchedUser)
		}
		if err != nil {
			return err
		}
	}
	return a.ended()
}

// find is a look-up by the service, which whoever may ask it can make.
func (a *asker) find(uids []schema.UID, timeout time.Duration) ([]delivery.Found, error) {
	users, err := a.lookup(uids, false, 0, timeout)
	if err != nil {
		return nil, err
	}
	found := make([]delivery.Found, len(users))
	for i, u := range users {
		f := delivery.Found{UID: u.UID, State: u.State, Partial: u.Partial, Suspect: u.Suspect, Why: u.Why}
		if u.Stamp != nil {
			f.Stamp = *u.Stamp
		}
		for k := range u.Routes {
			if r, ok := u.Routes[k].Route(u.UID); ok {
				f.Routes = append(f.Routes, r)
			}
		}
		found[i] = f
	}
	return found, nil
}

// print prints what is known of a user.
func (c *WatchCmd) print(s *session, u schema.WatchedUser) error {
	if c.JSON {
		return printJSON(s.out, u)
	}
	_, err := fmt.Fprintf(s.out, "%s  %-8s %s%s  %s\n", time.Now().Format(clock), u.State, printable(string(u.UID)), devices(u.Devices...), u.Reason)
	return err
}
