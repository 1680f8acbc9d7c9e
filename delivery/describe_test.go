package delivery

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// fits says where a value does not fit a schema; as much of JSON Schema as describe uses.
func fits(s map[string]any, v any) string {
	if len(s) == 0 {
		return "" // any value
	}
	switch v := v.(type) {
	case map[string]any:
		properties, ok := s["properties"].(map[string]any)
		if !ok {
			return "an object"
		}
		for name, inner := range v {
			p, ok := properties[name].(map[string]any)
			if !ok {
				return "unknown " + name
			}
			if why := fits(p, inner); why != "" {
				return name + ": " + why
			}
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				return "no " + name.(string)
			}
		}
		return ""
	case []any:
		items, _ := s["items"].(map[string]any)
		if s["type"] != "array" {
			return "a list"
		}
		for _, inner := range v {
			if why := fits(items, inner); why != "" {
				return why
			}
		}
		return ""
	case string, bool, float64:
		want := map[string]bool{"string": isA[string](v), "boolean": isA[bool](v), "integer": isA[float64](v)}
		if kind, ok := s["type"].(string); ok && !want[kind] {
			return "no " + kind
		}
	}
	return ""
}

func isA[T any](v any) bool { _, ok := v.(T); return ok }

// What the service says of its answers is what it answers.
func TestSchemas(t *testing.T) {
	alice := online("alice", route("alice", 1, 7, "phone-1", "app"))
	alice.Stamp = schema.Stamp{Fence: 5, K: 9}
	p := newPlan([]Found{alice}, nil, filter{})
	page := &SessionsPage{Gateway: gateway(1), Routes: alice.Routes, Cursor: "c"}
	for name, tc := range map[string]struct {
		schema string
		value  any
	}{
		"lookup":   {schemaOf(schema.LookupReply{}), schema.LookupReply{Results: []schema.UserReply{userReply(&alice)}}},
		"push":     {schemaOf(schema.PushReply{}), pushReply(&Pushed{ID: "m1", Users: p.users}, 1, false)},
		"sessions": {schemaOf(schema.SessionsReply{}), sessionsReply(page, 1<<20)},
		"call": {schemaOf(schema.PushCall{}), schema.PushCall{UIDs: []schema.UID{"a"}, Payload: json.RawMessage(`{"a":[1]}`),
			Except: &schema.Except{UID: "u"}, AckWaitMS: 1}},
		"explain": {schemaOf(schema.Explanation{}), schema.Explanation{Routes: []schema.ExplainedRoute{{}}, Tombstones: []schema.ExplainedTomb{{}},
			Refusals: []schema.ExplainedNo{{}}}},
		"slots": {schemaOf(schema.SlotsReply{}), schema.SlotsReply{Slots: []schema.SlotStatus{{Outstanding: []schema.NodeID{"gw"}}}, Processes: []schema.ProcessStatus{{Sessions: 1}}, Missing: []schema.NodeID{"a-1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var s map[string]any
			require.NoError(t, json.Unmarshal([]byte(tc.schema), &s))
			body, err := json.Marshal(tc.value)
			require.NoError(t, err)
			var v any
			require.NoError(t, json.Unmarshal(body, &v))
			require.Empty(t, fits(s, v), "%s\n%s", tc.schema, body)
		})
	}
	require.JSONEq(t, `{"type":"object","required":["uid"],"properties":{"uid":{"type":"string"}}}`, schemaOf(schema.ExplainCall{}))
	require.Contains(t, schemaOf(schema.PushReply{}, schema.PushCounts{}), "oneOf")
}
