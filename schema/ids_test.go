package schema_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rollcall-mesh/rollcall/schema"
)

func long(n int) string { return strings.Repeat("x", n) }

func TestIDChecks(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string // "" for none
	}{
		"uid":                    {schema.UID("alice@example.com").Check(), ""},
		"uid of all sorts":       {schema.UID("a b.c*>/🚀é").Check(), ""},
		"uid of 256 bytes":       {schema.UID(long(256)).Check(), ""},
		"uid with U+00A0":        {schema.UID("a\u00a0b").Check(), ""},
		"uid with U+00BF":        {schema.UID("\u00bf").Check(), ""},
		"uid empty":              {schema.UID("").Check(), "uid is empty"},
		"uid of 257 bytes":       {schema.UID(long(257)).Check(), "257 bytes"},
		"uid not UTF-8":          {schema.UID("a\xc3").Check(), "not valid UTF-8"},
		"uid with NUL":           {schema.UID("a\x00").Check(), "control character"},
		"uid with line end":      {schema.UID("a\n").Check(), "control character"},
		"uid with DEL":           {schema.UID("a\x7f").Check(), "control character"},
		"uid with U+0085":        {schema.UID("a\u0085").Check(), "control character"},
		"device":                 {schema.DeviceID("Zoë's phone").Check(), ""},
		"device empty":           {schema.DeviceID("").Check(), ""},
		"device of 129 bytes":    {schema.DeviceID(long(129)).Check(), "129 bytes"},
		"device not UTF-8":       {schema.DeviceID("\xff").Check(), "not valid UTF-8"},
		"node":                   {schema.NodeID("Gw-1_x").Check(), ""},
		"node of 64":             {schema.NodeID(long(64)).Check(), ""},
		"node of 65":             {schema.NodeID(long(65)).Check(), "65 characters"},
		"node empty":             {schema.NodeID("").Check(), "0 characters"},
		"node with a dot":        {schema.NodeID("a.b").Check(), "'.'"},
		"node with a wildcard":   {schema.NodeID("*").Check(), "'*'"},
		"node with a space":      {schema.NodeID("a b").Check(), "' '"},
		"flag":                   {schema.Flag("app_2-x").Check(), ""},
		"flag in upper case":     {schema.Flag("App").Check(), "'A'"},
		"flag of 33":             {schema.Flag(long(33)).Check(), "33 characters"},
		"flag empty":             {schema.Flag("").Check(), "0 characters"},
		"listener":               {schema.Listener("ws").Check(), ""},
		"listener in upper case": {schema.Listener("WS").Check(), "'W'"},
		"boot":                   {schema.NewBoot().Check(), ""},
		"boot of 21":             {schema.BootID(long(21)).Check(), "21 characters"},
		"boot with a dot":        {schema.BootID(long(21) + ".").Check(), "'.'"},
		"process":                {gateway.Check(), ""},
		"process without node":   {schema.Process{Boot: gateway.Boot}.Check(), "node"},
		"process without boot":   {schema.Process{Node: "n"}.Check(), "boot"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.want == "" {
				require.NoError(t, tc.err)
				return
			}
			require.ErrorContains(t, tc.err, tc.want)
		})
	}
}

func TestBootsDiffer(t *testing.T) {
	seen := map[schema.BootID]bool{}
	for range 1000 {
		b := schema.NewBoot()
		require.NoError(t, b.Check())
		require.False(t, seen[b])
		seen[b] = true
	}
}

func TestSessionID(t *testing.T) {
	num := schema.NewSessionNum(7, 3)
	require.Equal(t, uint32(7), num.Index())
	require.Equal(t, uint32(3), num.Generation())
	id := num.Outside(gateway.Boot)
	boot, got, ok := id.Parse()
	require.True(t, ok)
	require.Equal(t, gateway.Boot, boot)
	require.Equal(t, num, got)

	b := string(gateway.Boot)
	for _, bad := range []string{"", ".", b, b + ".", ".1", b + ".1.2", b + "..1", b + ".-1", b + ".+1", b + ".A", b + ".01",
		b + ".1_0", b + ".3w5e11264sgsg", b[:21] + ".1", b + "x.1", b + ". 1", "*.1"} {
		_, _, ok := schema.SessionID(bad).Parse()
		require.False(t, ok, "%q", bad)
	}
	_, highest, ok := schema.SessionID(b + ".3w5e11264sgsf").Parse()
	require.True(t, ok)
	require.Equal(t, schema.NewSessionNum(1<<32-1, 1<<32-1), highest)
}

func TestTargetDiffers(t *testing.T) {
	require.Empty(t, target.Differs(target))
	for want, change := range map[string]func(*schema.Target){
		"slot":  func(x *schema.Target) { x.Slot, x.Fence = 18, 1 },
		"fence": func(x *schema.Target) { x.Fence, x.Authority = 1, successor },
		"node":  func(x *schema.Target) { x.Authority = successor },
		"boot":  func(x *schema.Target) { x.Authority.Boot = successor.Boot },
	} {
		other := target
		change(&other)
		require.Equal(t, want, target.Differs(other))
		require.Equal(t, want, other.Differs(target))
	}
}

func TestOrderAndStampRank(t *testing.T) {
	ascending := []schema.Order{{}, {Fence: 0, N: 1}, {Fence: 1, N: 0}, {Fence: 1, N: 9}, {Fence: 2, N: 1}}
	for i, a := range ascending {
		for j, b := range ascending {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			require.Equal(t, want, a.Compare(b))
			require.Equal(t, want, schema.Stamp{Fence: a.Fence, K: a.N}.Compare(schema.Stamp{Fence: b.Fence, K: b.N}))
		}
	}
}

func TestPairsInJSON(t *testing.T) {
	b, err := json.Marshal(schema.Stamp{Fence: 1790000000123, K: 7})
	require.NoError(t, err)
	require.JSONEq(t, `[1790000000123,7]`, string(b))
	var s schema.Stamp
	require.NoError(t, json.Unmarshal(b, &s))
	require.Equal(t, schema.Stamp{Fence: 1790000000123, K: 7}, s)
	var o schema.Order
	require.NoError(t, json.Unmarshal(b, &o))
	require.Equal(t, schema.Order{Fence: 1790000000123, N: 7}, o)
	require.Error(t, json.Unmarshal([]byte(`"x"`), &o))
}

func TestLevels(t *testing.T) {
	for text, want := range map[string]schema.Level{"": schema.Slave, "slave": schema.Slave, "master": schema.Master} {
		got, err := schema.ParseLevel(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := schema.ParseLevel("boss")
	require.ErrorContains(t, err, `"boss"`)
	require.Equal(t, "master", schema.Master.String())
	require.Equal(t, "level(7)", schema.Level(7).String())
}

func TestSameDevice(t *testing.T) {
	a, b := schema.Route{Device: "d"}, schema.Route{Device: "d"}
	require.True(t, a.SameDevice(&b))
	b.Device = "e"
	require.False(t, a.SameDevice(&b))
	a.Device, b.Device = "", ""
	require.False(t, a.SameDevice(&b), "the empty device equals no other")
}

// closed is a set of names that stands in JSON.
type closed interface {
	String() string
	MarshalText() ([]byte, error)
}

func TestClosedSetsInJSON(t *testing.T) {
	for i := range 256 {
		requireName(t, schema.Code(i), new(schema.Code), i <= int(schema.CodeInternal), schema.CodeInternal)
		requireName(t, schema.Reason(i), new(schema.Reason), i <= int(schema.ReasonPolicy), schema.Reason(0))
		requireName(t, schema.PushResult(i), new(schema.PushResult), i <= int(schema.PushPending), schema.PushUnknown)
	}
}

// requireName takes a value through JSON; the name of one that is not of the set reads as other.
func requireName[T closed](t *testing.T, v T, into *T, member bool, other T) {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	require.Equal(t, `"`+v.String()+`"`, string(b))
	require.NoError(t, json.Unmarshal(b, into))
	if !member {
		v = other
	}
	require.Equal(t, v, *into)
}

func TestCodesHaveErrors(t *testing.T) {
	require.NoError(t, schema.CodeOK.Err())
	require.NoError(t, schema.CodeConflict.Err())
	require.ErrorIs(t, schema.CodeMoved.Err(), schema.ErrMismatch)
	require.ErrorIs(t, schema.CodeBusy.Err(), schema.ErrRetry)
	for c := schema.CodeMismatch; c < schema.CodeInternal; c++ {
		require.Error(t, c.Err())
		require.False(t, errors.Is(c.Err(), schema.ErrInternal), "%s has an error of its own", c)
	}
	require.ErrorIs(t, schema.Code(200).Err(), schema.ErrInternal)
}

func TestEventJSON(t *testing.T) {
	route := &schema.EventRoute{Node: "gw-1", Boot: gateway.Boot, Session: "s", Device: "d", Flag: "app", Level: "master", Order: schema.Order{Fence: 3, N: 4}}
	b, err := json.Marshal(schema.Event{Type: schema.EventOffline, Slot: 17, UID: "alice", Stamp: schema.Stamp{Fence: 3, K: 9}, Reason: schema.ReasonOwnerLost, Route: route, At: "2026-01-02T03:04:05Z"})
	require.NoError(t, err)
	require.Equal(t, `{"type":"offline","slot":17,"uid":"alice","stamp":[3,9],"reason":"owner_lost","route":{"node":"gw-1","boot":"AAAAAAAAAAAAAAAAAAAAAA","session":"s","device":"d","flag":"app","level":"master","order":[3,4]},"left":0,"at":"2026-01-02T03:04:05Z"}`, string(b))
	b, err = json.Marshal(schema.Event{Type: schema.EventRebuilt, Slot: 17, Stamp: schema.Stamp{Fence: 3, K: 9}})
	require.NoError(t, err)
	require.Equal(t, `{"type":"rebuilt","slot":17,"stamp":[3,9]}`, string(b))
}

// What AppendJSON writes is what encoding/json makes of the struct, and is read as the same.
func TestEventJSONIsTheStructs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := []schema.EventType{schema.EventOnline, schema.EventOffline, schema.EventAdded, schema.EventRemoved}
		e := schema.Event{Type: rapid.SampledFrom(types).Draw(t, "type"), Slot: schema.Slot(rapid.IntRange(0, 255).Draw(t, "slot")), UID: anyUID.Draw(t, "uid"),
			Stamp: schema.Stamp{Fence: anyRevision.Draw(t, "fence"), K: rapid.Uint64().Draw(t, "k")}, Reason: schema.Reason(rapid.IntRange(0, int(schema.ReasonPolicy)).Draw(t, "reason")),
			Left: rapid.IntRange(0, 40).Draw(t, "left"), At: rapid.SampledFrom([]string{"", "2026-01-02T03:04:05Z"}).Draw(t, "at")}
		if rapid.Bool().Draw(t, "route") {
			r := anyRoute.Draw(t, "route")
			e.Route = &schema.EventRoute{Node: anyNode.Draw(t, "node"), Boot: anyBoot.Draw(t, "boot"), Session: r.Session.Outside("b"), Device: r.Device, Flag: r.Flag, Level: r.Level.String(), Order: r.Order}
		}
		type plain schema.Event // without its methods
		want, err := json.Marshal(plain(e))
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(e.AppendJSON(nil)))
		var back schema.Event
		require.NoError(t, json.Unmarshal(e.AppendJSON(nil), &back))
		require.Equal(t, e, back)
	})
}

func TestConfigCheck(t *testing.T) {
	require.NoError(t, schema.DefaultConfig().Check())
	for want, change := range map[string]func(*schema.Config){
		"slots is 128 there and 256":    func(c *schema.Config) { c.Slots = 128 },
		"format is 2 there and 1":       func(c *schema.Config) { c.Format = 2 },
		"lease_ms is 999":               func(c *schema.Config) { c.LeaseMS = 999 },
		"lease_ms is 86400001":          func(c *schema.Config) { c.LeaseMS = 86400001 },
		"heartbeat_ms is 0":             func(c *schema.Config) { c.HeartbeatMS = 0 },
		"heartbeat_ms is -1":            func(c *schema.Config) { c.HeartbeatMS = -1 },
		"heartbeat_ms is 9223372036854": func(c *schema.Config) { c.HeartbeatMS = 1<<63 - 1 },
		"at least 3 heartbeats, 1m30s":  func(c *schema.Config) { c.TTLMS = 89_999 },
		"ttl_ms is 9223372036854775807": func(c *schema.Config) { c.TTLMS = 1<<63 - 1 },
		"max_sessions is 0":             func(c *schema.Config) { c.MaxSessions = 0 },
		"max_sessions is 1025":          func(c *schema.Config) { c.MaxSessions = 1025 },
		"grace_ms is -1":                func(c *schema.Config) { c.GraceMS = -1 },
		"grace_ms is 600001":            func(c *schema.Config) { c.GraceMS = 600_001 },
	} {
		t.Run(want, func(t *testing.T) {
			c := schema.DefaultConfig()
			change(&c)
			require.ErrorIs(t, c.Check(), schema.ErrConfig)
			require.ErrorContains(t, c.Check(), want)
		})
	}
}

func TestConfigDerives(t *testing.T) {
	c := schema.DefaultConfig()
	require.Equal(t, "30s 30s 1m30s", strings.Join([]string{c.Lease().String(), c.Heartbeat().String(), c.TTL().String()}, " "))
	require.Equal(t, "3s 20s 10s 5s", strings.Join([]string{c.Renew().String(), c.Trust().String(), c.Flush().String(), c.Settle().String()}, " "))
	b, err := json.Marshal(c)
	require.NoError(t, err)
	require.Equal(t, `{"slots":256,"format":1,"lease_ms":30000,"heartbeat_ms":30000,"ttl_ms":90000,"policy":"levels","max_sessions":32,"grace_ms":5000,"last_seen":false,"events":false,"watch_off":false}`, string(b))
	old, err := schema.ParseConfig([]byte(`{"slots":256,"format":1,"max_sessions":7}`))
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, old.Grace(), "of a bucket that an older program made")
	none, err := schema.ParseConfig([]byte(`{"grace_ms":0}`))
	require.NoError(t, err)
	require.Zero(t, none.Grace())
}

func TestKeyValuesInJSON(t *testing.T) {
	for want, v := range map[string]any{
		`{"node":"a-1","boot":"CCCCCCCCCCCCCCCCCCCCCC"}`:                                                     schema.SlotValue(authority),
		`{"boot":"CCCCCCCCCCCCCCCCCCCCCC","state":"serving","version":"1","addresses":["a:1"],"c":"NSRV/3"}`: schema.ProcessValue{Boot: authority.Boot, State: schema.StateServing, Version: "1", Addresses: []string{"a:1"}, Conn: "NSRV/3"},
		`{"boot":"CCCCCCCCCCCCCCCCCCCCCC","state":"leaving","addresses":["a:1"],"sessions":2,"since":17}`:    schema.ProcessValue{Boot: authority.Boot, State: schema.StateLeaving, Addresses: []string{"a:1"}, Sessions: 2, Since: 17},
	} {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
}
