package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// opening is a watch that a session begins with, and where its answer comes.
type opening struct {
	uids   []schema.UID
	frame  schema.ClientFrame
	answer chan schema.ServerFrame
}

// openingLocked makes the watches that a new session begins with: all that are watched, in as few
// frames as the gateway takes.
func (c *Client) openingLocked(s *session) (list []opening) {
	for _, uids := range s.fitting(slices.Sorted(maps.Keys(c.watched))) {
		o := opening{uids: uids, frame: c.id(schema.ClientFrame{Type: schema.TypeWatch, UIDs: uids}), answer: make(chan schema.ServerFrame, 1)}
		s.await(o.frame.ID, o.answer)
		list = append(list, o)
	}
	return list
}

// fitting splits uids so that each part's watch is no larger than what the gateway takes.
func (s *session) fitting(uids []schema.UID) [][]schema.UID {
	if len(uids) == 0 {
		return nil
	}
	const room = 32 // for the id
	b, err := s.enc.Encode(schema.ClientFrame{Type: schema.TypeWatch, UIDs: uids})
	if most := s.info().MaxBytes; err != nil || most == 0 || int64(len(b)+room) <= most || len(uids) == 1 {
		return [][]schema.UID{uids}
	}
	half := len(uids) / 2
	return append(s.fitting(uids[:half]), s.fitting(uids[half:])...)
}

// rewatch sees the watches that the session began with through: what is refused for the moment is
// tried again, and what is refused for good is not watched any more, which the application is told.
func (s *session) rewatch(ctx context.Context) {
	for _, o := range s.opening {
		f, err := s.awaitAnswer(ctx, o.answer)
		uids := o.uids
		for pause := rewatchLeast; err != nil; pause = min(2*pause, rewatchMost) {
			refused, ok := errors.AsType[*RefusedError](err)
			if !ok {
				return // the session has ended: the next one begins with it
			}
			if uids = s.again(ctx, refused, f.UIDs, uids, pause); len(uids) == 0 {
				break
			}
			f, err = s.request(ctx, s.client.id(schema.ClientFrame{Type: schema.TypeWatch, UIDs: uids}))
		}
		s.unwatchUnwanted(ctx, uids)
	}
}

// again gives which of uids are to be tried once more, when it is time; none where there is nothing
// to hope for.
func (s *session) again(ctx context.Context, refused *RefusedError, named, uids []schema.UID, pause time.Duration) []schema.UID {
	c := s.client
	switch {
	case refused.Retryable:
		s.log.Warn("watch refused for the moment: it is tried again", "users", len(uids), "err", refused)
		select {
		case <-time.After(max(refused.RetryAfter, pause)):
		case <-ctx.Done():
			return nil
		}
	case refused.Code == schema.FrameNotAllowed && len(named) > 0:
		s.giveUp(ctx, named, refused)
	default:
		s.giveUp(ctx, uids, refused)
	}
	return c.wanted(uids)
}

// giveUp watches users no longer.
func (s *session) giveUp(ctx context.Context, uids []schema.UID, why error) {
	s.client.forget(uids)
	select {
	case s.refused <- refusedWatch{uids, why}:
	case <-ctx.Done():
	}
}

// unwatchUnwanted ends the watch of those whom an Unwatch has overtaken while it was tried again.
func (s *session) unwatchUnwanted(ctx context.Context, uids []schema.UID) {
	wanted := s.client.wanted(uids)
	if len(wanted) == len(uids) {
		return
	}
	gone := slices.DeleteFunc(slices.Clone(uids), func(u schema.UID) bool { return slices.Contains(wanted, u) })
	_, err := s.request(ctx, s.client.id(schema.ClientFrame{Type: schema.TypeUnwatch, UIDs: gone}))
	if err != nil && ctx.Err() == nil {
		s.log.Warn("unwatch refused", "err", err)
	}
}

// refusedWatch is for OnWatchRefused.
type refusedWatch struct {
	uids []schema.UID
	why  error
}

// stamps are the latest stamps told of users, across sessions: another gateway may know a user as of
// an earlier moment than the one before. Owned by Run.
type stamps map[schema.UID]schema.Stamp

// fresh gives the users whose frame says no older thing than what was told already. Who is unknown
// has no stamp, and is told anything next.
func (st stamps) fresh(users []schema.WatchedUser) []schema.WatchedUser {
	if len(st) > stampsSize {
		clear(st)
	}
	return slices.DeleteFunc(users, func(u schema.WatchedUser) bool {
		if u.Stamp == nil {
			delete(st, u.UID)
			return false
		}
		if last, ok := st[u.UID]; ok && u.Stamp.Compare(last) < 0 {
			return true
		}
		st[u.UID] = *u.Stamp
		return false
	})
}
