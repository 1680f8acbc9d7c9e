package directory

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Touch renews the routes of sessions that have shown life. It never creates one; it names the
// exceptions: CodeUnknown, or CodeSuperseded with the code to close the session with.
func (d *Directory) Touch(now time.Time, head schema.SlotHead, touched []schema.Touched) []schema.TouchException {
	var exceptions []schema.TouchException
	o, ok := d.sender(head)
	t := d.tick(now)
	for n := range touched {
		s := touched[n].Session
		x := schema.TouchException{Session: s, Code: schema.CodeUnknown}
		if ok {
			x.Code, x.Close = d.touch(o, s, t, touched[n].Idle)
		}
		if x.Code != schema.CodeOK {
			exceptions = append(exceptions, x)
		}
	}
	return exceptions
}

func (d *Directory) touch(o uint32, s schema.SessionNum, now, idle time.Duration) (schema.Code, schema.CloseCode) {
	hash := hashSession(o, s)
	for at, i := d.sessions.seek(hash, d.sessions.home(hash)); i != 0; at, i = d.sessions.seek(hash, at+1) {
		r := d.slab.at(i)
		switch {
		case r.session != s || r.owner != o || d.lapsed(r, now):
		case r.state == committed:
			r.active = max(r.active, now-idle)
			return schema.CodeOK, 0
		case r.state == superseded:
			return schema.CodeSuperseded, r.loss.close()
		}
	}
	return schema.CodeUnknown, 0
}
