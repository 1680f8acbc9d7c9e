package faults

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ws "github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// An authority dies after the old session of a device was kicked and before the new one was
// committed. The old one has been told the truth. The new one gets in under the next owner where that
// is there in time, and is told when to come back where it is not.
func TestAuthorityKilledBeforeCommit(t *testing.T) {
	slow := pass{"a lease longer than a login's deadline", 7 * time.Second, 7 * time.Second, 21 * time.Second}
	for _, c := range []struct {
		name   string
		pass   pass
		events bool
	}{
		{"events", tenth(), true},
		{"no events", slow, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := campaign(t)
			s := newStage(t, l, scene{pass: c.pass, events: c.events, proxied: []string{"gw-1"}})
			begun := time.Now()
			for i := range l.times(5, 1) {
				s.killBeforeCommit(schema.UID("mover-"+string(rune('a'+i))), c.events)
			}
			s.honest(begun)
		})
	}
}

func (s *stage) killBeforeCommit(uid schema.UID, events bool) {
	s.t.Helper()
	old := visit(s.t, s.gateways[1], uid, "phone")
	old.next(s.t, ws.Connected, patience)
	owner := s.owner(subjects.SlotOf(uid))
	var once sync.Once
	s.proxies["gw-1"].pass(func(f frame) bool {
		if f.toServer && strings.HasPrefix(f.subject, "slot.") && strings.HasSuffix(f.subject, "."+string(subjects.Commit)) {
			once.Do(func() { owner.kill() })
		}
		return true
	})
	begun := time.Now()
	again := visit(s.t, s.gateways[0], uid, "phone")
	told := old.next(s.t, ws.Stopped, 5*time.Second)
	lost, ok := errors.AsType[*ws.LostError](told.Err)
	require.True(s.t, ok, "%v", told.Err)
	require.Equal(s.t, schema.CloseReplaced, lost.Code, "what the old session was told")
	kicked := time.Since(begun)
	if events {
		again.next(s.t, ws.Connected, 5*time.Second)
		s.t.Logf("%s: the old session was told after %v, the new one is in after %v", uid, kicked, time.Since(begun))
	} else {
		refused := again.next(s.t, ws.Waiting, 6*time.Second)
		why, ok := errors.AsType[*ws.LostError](refused.Err)
		require.True(s.t, ok, "%v", refused.Err)
		s.t.Logf("%s: the old session was told after %v, the new one is refused after %v: %v, to come back in %v", uid, kicked, time.Since(begun), why, why.RetryAfter)
		require.Equal(s.t, schema.CloseNotNow, why.Code)
		require.NotZero(s.t, why.RetryAfter)
		again.next(s.t, ws.Connected, patience)
	}
	require.False(s.t, owner.proc.Running(), "the authority was not killed: no commit was seen")
	s.proxies["gw-1"].pass(nil)
	again.leave()
	owner.start()
	s.settle()
}

// owner gives the authority that owns a slot.
func (s *stage) owner(slot schema.Slot) *unit {
	s.t.Helper()
	target, ok := s.owners.view.Target(slot)
	require.True(s.t, ok)
	for _, u := range s.authorities {
		if schema.NodeID(u.node) == target.Authority.Node {
			return u
		}
	}
	require.FailNow(s.t, "nobody owns the slot")
	return nil
}
