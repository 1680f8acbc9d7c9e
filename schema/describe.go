package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Describe gives one line of JSON that shows a message to people: its kind, then its fields under
// lower case names, zero ones left out. Durations are in milliseconds, sessions have their outside
// name where the message says whose they are, and a payload that is JSON is shown as such. The
// form is for reading, not for programs: it may change.
func Describe(m Message) json.RawMessage {
	v := reflect.ValueOf(m).Elem()
	d := describer{out: []byte{'{'}, owner: sender(v)}
	d.member("kind", reflect.ValueOf(m.Kind().String()))
	d.members(v)
	return append(d.out, '}')
}

// describer appends JSON to out; owner is the boot whose session numbers are being shown.
type describer struct {
	out   []byte
	owner BootID
}

var (
	processType  = reflect.TypeFor[Process]()
	durationType = reflect.TypeFor[time.Duration]()
)

// sender gives the boot of the gateway that a message is from or to.
func sender(m reflect.Value) BootID {
	if head := m.FieldByName("Head"); head.IsValid() {
		m = head
	}
	for _, name := range [...]string{"To", "From"} {
		if f := m.FieldByName(name); f.IsValid() && f.Type() == processType {
			return f.Interface().(Process).Boot
		}
	}
	return ""
}

// members shows the fields of a struct; an embedded one's stand among its own.
func (d *describer) members(v reflect.Value) {
	owner := d.owner
	if f := v.FieldByName("Owner"); f.IsValid() && f.Type() == processType && !f.IsZero() {
		d.owner = f.Interface().(Process).Boot
	}
	for field, f := range v.Fields() {
		switch {
		case field.Anonymous:
			d.members(f)
		case field.Name == "ResumeSession" && !f.IsZero():
			d.member("resume", reflect.ValueOf(f.Interface().(SessionNum).Outside(v.FieldByName("ResumeBoot").Interface().(BootID))))
		case field.Name == "ResumeBoot" || silent(f):
		case f.Type() == durationType:
			d.member(snake(field.Name)+"_ms", reflect.ValueOf(f.Interface().(time.Duration).Milliseconds()))
		default:
			d.member(snake(field.Name), f)
		}
	}
	d.owner = owner
}

// silent reports whether a field says nothing: zero, and no named value of a closed set.
func silent(f reflect.Value) bool {
	if f.Kind() == reflect.Uint8 {
		return fmt.Sprint(f.Interface()) == ""
	}
	return f.IsZero()
}

func (d *describer) member(name string, v reflect.Value) {
	if d.out[len(d.out)-1] != '{' {
		d.out = append(d.out, ',')
	}
	d.out = append(append(append(d.out, '"'), name...), '"', ':')
	d.value(v)
}

func (d *describer) value(v reflect.Value) {
	switch x := v.Interface().(type) {
	case Process:
		d.json(x.String())
	case SessionNum:
		d.json(strings.TrimPrefix(string(x.Outside(d.owner)), "."))
	case []byte:
		if json.Valid(x) {
			d.json(json.RawMessage(x))
		} else {
			d.json(x)
		}
	case json.Marshaler, encoding.TextMarshaler, UID:
		d.json(x)
	case fmt.Stringer:
		if v.Kind() == reflect.Struct {
			d.object(v)
		} else {
			d.json(x.String())
		}
	default:
		d.plain(v)
	}
}

func (d *describer) plain(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		d.object(v)
	case reflect.Slice:
		d.out = append(d.out, '[')
		for i := range v.Len() {
			if i > 0 {
				d.out = append(d.out, ',')
			}
			d.value(v.Index(i))
		}
		d.out = append(d.out, ']')
	default:
		d.json(v.Interface())
	}
}

func (d *describer) object(v reflect.Value) {
	d.out = append(d.out, '{')
	d.members(v)
	d.out = append(d.out, '}')
}

func (d *describer) json(v any) { d.out = append(d.out, mustJSON(v)...) }

// snake gives retry_after for RetryAfter, and uids for UIDs.
func snake(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if i > 0 && isUpper(name[i]) && !isUpper(name[i-1]) {
			b.WriteByte('_')
		}
		b.WriteByte(name[i])
	}
	return strings.ToLower(b.String())
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
