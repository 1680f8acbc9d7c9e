package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// fallbackWait bounds how long the server may take to have what was published.
const fallbackWait = 2 * time.Second

// fallBack publishes the message once for each user whom it did not reach, and gives for how many
// that failed. Nothing is kept here: what was published is as safe as the stream on its subject.
func (d *Delivery) fallBack(ctx context.Context, subject string, m Message, p *plan) (failed int) {
	missed := p.missed()
	if subject == "" || len(missed) == 0 {
		return 0
	}
	sent := 0
	var err error
	for _, u := range missed {
		if err = d.publishMissed(subject, m, u); err != nil {
			failed++
			continue
		}
		sent++
	}
	if sent > 0 {
		// Once the server has taken the ping behind it, it has the message too.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), fallbackWait)
		defer cancel()
		if err = d.nc.FlushWithContext(within); err != nil {
			failed, sent = len(missed), 0
		}
	}
	if failed > 0 {
		d.s.log.Warn("unreached not published", "subject", subject, "users", failed, "err", err)
	}
	d.meter.fellBack(sent, failed)
	return failed
}

func (d *Delivery) publishMissed(subject string, m Message, u missed) error {
	data, err := json.Marshal(schema.Missed{ID: m.ID, UID: u.uid, From: m.From, Payload: m.Payload, Why: u.why})
	if err == nil {
		err = d.nc.Publish(subject, data)
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", subject, err)
	}
	return nil
}

// missed is a user whom a message did not reach.
type missed struct {
	uid schema.UID
	why schema.MissedWhy
}

// missed gives each user once whom the message did not reach. Who is connected by nothing but the
// session that was to be skipped has missed nothing.
func (p *plan) missed() []missed {
	var list []missed
	told := make(map[schema.UID]struct{})
	for i := range p.users {
		u := &p.users[i]
		_, twice := told[u.UID]
		if u.Reached || twice || len(u.Routes) == 0 && u.skipped {
			continue
		}
		told[u.UID] = struct{}{}
		list = append(list, missed{u.UID, u.missedWhy()})
	}
	return list
}

// missedWhy names the reason that leaves most open: what may have arrived, then what might arrive
// if it were sent again, then what is over.
func (u *PushedUser) missedWhy() schema.MissedWhy {
	if u.uncertain() {
		return schema.MissedUnknown
	}
	why := schema.MissedOffline
	for _, r := range u.Routes {
		switch r.Result {
		case schema.PushQueueFull:
			return schema.MissedQueueFull
		case schema.PushOwnerGone:
			why = schema.MissedOwnerGone
		}
	}
	return why
}
