package watching_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/watching"
	"github.com/rollcall-mesh/rollcall/schema"
)

func told(uid schema.UID, state schema.UserState, k uint64, devices ...schema.DeviceID) schema.WatchedUser {
	u := schema.WatchedUser{UID: uid, State: string(state)}
	if k > 0 {
		u.Stamp = &schema.Stamp{Fence: 1, K: k}
	}
	for _, d := range devices {
		u.Devices = append(u.Devices, schema.WatchedDevice{Device: d})
	}
	return u
}

// TestJudge tells each fault from what may be told.
func TestJudge(t *testing.T) {
	truth := []delivery.Found{{UID: "bob", State: schema.Online, Routes: []schema.Route{{Device: "phone"}}}}
	steady := map[schema.UID]schema.UserState{"bob": schema.Online}
	for name, c := range map[string]struct {
		told                  []schema.WatchedUser
		wrong, back, invented int
	}{
		"fair":            {[]schema.WatchedUser{told("bob", schema.Unknown, 0), told("bob", schema.Online, 2, "phone")}, 0, 0, 0},
		"nothing":         {nil, 1, 0, 0},
		"another device":  {[]schema.WatchedUser{told("bob", schema.Online, 2, "desk")}, 1, 0, 0},
		"went back":       {[]schema.WatchedUser{told("bob", schema.Online, 2, "phone"), told("bob", schema.Unknown, 0), told("bob", schema.Online, 1, "phone")}, 0, 1, 0},
		"invented":        {[]schema.WatchedUser{told("bob", schema.Offline, 2), told("bob", schema.Online, 3, "phone")}, 0, 0, 1},
		"left as offline": {[]schema.WatchedUser{told("bob", schema.Offline, 2)}, 1, 0, 1},
	} {
		o := watching.New(name, steady)
		for _, u := range c.told {
			o.Take(u)
		}
		v := watching.Judge([]*watching.Onlooker{o}, truth)
		require.Equal(t, []int{c.wrong, c.back, c.invented}, []int{len(v.Wrong), len(v.Back), len(v.Invented)}, v.String())
		require.Equal(t, c.wrong+c.back+c.invented == 0, v.Fair())
	}
}
