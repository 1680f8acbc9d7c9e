package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// A presence frame of encoded users is the one that Encode makes.
func TestPresenceIsTheEncodedFrame(t *testing.T) {
	stamp := schema.Stamp{Fence: 1790000000123, K: 7}
	all := []schema.WatchedUser{
		{UID: "bob", State: "online", Reason: "connect", Stamp: &stamp, Devices: []schema.WatchedDevice{{Device: "phone \"1\"", Flag: "app", Level: "master"}, {}, {Flag: "web"}}},
		{UID: "eve\\é🚀", State: "offline", Stamp: &schema.Stamp{}},
		{UID: schema.UID(strings.Repeat("x", schema.MaxUID)), State: "unknown"},
	}
	for i := range 70_000 {
		all = append(all, schema.WatchedUser{UID: schema.UID(fmt.Sprint("user ", i)), State: "offline"})
	}
	for _, e := range []schema.Encoding{schema.JSON, schema.Msgpack} {
		var users []schema.EncodedUser
		for _, u := range all {
			users = append(users, e.EncodeUser(u))
		}
		for _, n := range []int{1, 2, 3, 15, 16, 65_535, 65_536} {
			want, err := e.Encode(schema.ServerFrame{Type: schema.TypePresence, Users: all[:n]})
			require.NoError(t, err)
			require.Equal(t, string(want), string(e.Presence(users[:n])), "%d users", n)
		}
		f, err := e.DecodeServer(e.Presence(users[:3]))
		require.NoError(t, err)
		require.Equal(t, all[:3], f.Users)
	}
}
