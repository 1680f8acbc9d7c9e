package delivery

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// describe gives the JSON Schema of what a Go type is in JSON, so that the service can say what it
// takes and gives and never says what is not so. It knows what this package's calls are made of:
// structs, lists, texts, numbers, switches, and types that write themselves as text or as a pair of
// numbers.
func describe(t reflect.Type) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return map[string]any{} // any value
	case implements[encoding.TextMarshaler](t):
		return map[string]any{"type": "string"}
	case implements[json.Marshaler](t): // a stamp or an order
		return map[string]any{"type": "array", "items": map[string]any{"type": "integer"}, "minItems": 2, "maxItems": 2}
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": describe(t.Elem())}
	case reflect.Struct:
		return describeStruct(t)
	default:
		return map[string]any{"type": "integer"}
	}
}

func describeStruct(t reflect.Type) map[string]any {
	properties := map[string]any{}
	var required []string
	for f := range t.Fields() {
		name, how, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		properties[name] = describe(f.Type)
		if !strings.Contains(how, "omitempty") && !strings.Contains(how, "omitzero") {
			required = append(required, name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func implements[I any](t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[I]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}

// schemaOf is the schema of one value, or of either of several, as one line.
func schemaOf(values ...any) string {
	either := make([]map[string]any, len(values))
	for i, v := range values {
		either[i] = describe(reflect.TypeOf(v))
	}
	var all any = map[string]any{"oneOf": either}
	if len(either) == 1 {
		all = either[0]
	}
	b, err := json.Marshal(all)
	if err != nil {
		return "" // maps, lists and texts always encode
	}
	return string(b)
}

// metadata is what `nats micro info` shows of a call.
func (e endpoint) metadata() map[string]string {
	return map[string]string{"description": e.does, "request": schemaOf(e.takes), "response": schemaOf(e.gives...)}
}
