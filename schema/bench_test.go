package schema_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// benchRoutes are n routes as a busy gateway has them: dense sessions, a few flags, own devices.
func benchRoutes(n int) []schema.Route {
	routes := make([]schema.Route, n)
	for i := range routes {
		routes[i] = schema.Route{
			UID: schema.UID(fmt.Sprintf("user-%06d", i*7)), Owner: gateway, Session: schema.NewSessionNum(uint32(i*3), uint32(1+i%3)),
			Device: schema.DeviceID(fmt.Sprintf("device-%d", i%90)), Flag: []schema.Flag{"app", "web"}[i%2], Level: schema.Level(i % 2),
			Listener: "ws", Seq: schema.OwnerSeq(1000 + i*5), Order: schema.Order{Fence: target.Fence, N: uint64(i * 11)},
			Age: time.Duration(i*977) * time.Millisecond, Idle: time.Duration(i%9000) * time.Millisecond,
		}
	}
	return routes
}

func benchMessages() map[string]struct {
	m schema.Message
	n int
} {
	routes := benchRoutes(512)
	touched := make([]schema.Touched, 4096)
	for i := range touched {
		touched[i] = schema.Touched{Session: schema.NewSessionNum(uint32(i*2), 1), Idle: time.Duration(i%100) * schema.TouchStep}
	}
	lookup := &schema.Lookup{}
	answer := &schema.LookupAnswer{}
	for slot := range 256 {
		tgt := schema.Target{Slot: schema.Slot(slot), Fence: target.Fence + schema.Revision(slot), Authority: authority}
		lookup.Groups = append(lookup.Groups, schema.LookupGroup{Target: tgt, Seen: tgt.Fence, Count: 4})
		answer.Groups = append(answer.Groups, schema.GroupAnswer{Target: tgt, Seen: tgt.Fence, Stamp: schema.Stamp{Fence: tgt.Fence, K: 1000}})
	}
	for i, r := range benchRoutes(1024) {
		lookup.UIDs = append(lookup.UIDs, r.UID)
		answer.Counts = append(answer.Counts, 1)
		r.Owner.Node = schema.NodeID(fmt.Sprintf("gw-%d", i%10))
		answer.Routes = append(answer.Routes, living(r, r.Owner))
	}
	push := schema.PushFrame{ID: "m1", From: "bob", Payload: []byte(`{"text":"hello there"}`)}
	for _, r := range routes {
		push.Recipients = append(push.Recipients, schema.Recipient{UID: r.UID, Session: r.Session, Seq: r.Seq})
	}
	return map[string]struct {
		m schema.Message
		n int
	}{
		"sync":            {&schema.Sync{Head: head, Routes: routes}, len(routes)},
		"touch":           {&schema.Touch{Head: head, Sessions: touched}, len(touched)},
		"lookup":          {lookup, len(lookup.UIDs)},
		"lookup answer":   {answer, len(answer.Routes)},
		"push":            {&schema.Push{To: gateway, Frames: []schema.PushFrame{push}}, len(routes)},
		"register":        {samples()[0], 2},
		"register answer": {&schema.RegisterAnswer{Head: served, Results: make([]schema.LoginResult, 1)}, 1},
	}
}

// Cost of one row, written and read.
func BenchmarkRow(b *testing.B) {
	for name, bench := range benchMessages() {
		data, err := schema.Marshal(bench.m)
		require.NoError(b, err)
		b.Run(name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				schema.Marshal(bench.m)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bench.n), "ns/row")
			b.ReportMetric(float64(len(data))/float64(bench.n), "B/row")
		})
		b.Run(name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				schema.UnmarshalAny(data)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bench.n), "ns/row")
		})
	}
}

func BenchmarkEvent(b *testing.B) {
	e := schema.Event{Type: schema.EventOnline, Slot: 17, UID: "user-0012345", Stamp: schema.Stamp{Fence: target.Fence, K: 7}, Reason: schema.ReasonConnect, Left: 1, At: "2026-01-02T03:04:05.123456Z",
		Route: &schema.EventRoute{Node: gateway.Node, Boot: gateway.Boot, Session: schema.NewSessionNum(9, 1).Outside(gateway.Boot), Device: "phone-1", Flag: "app", Level: "master", Order: schema.Order{Fence: target.Fence, N: 9}}}
	room := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		e.AppendJSON(room)
	}
}
