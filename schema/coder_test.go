package schema

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuick(t *testing.T) {
	p := Process{"n1", NewBoot()}
	tg := Target{3, 17, p}
	for _, m := range []Message{
		&Register{Head: SlotHead{tg, 20, p, 4}, Logins: []Login{{Route: Route{UID: "a", Owner: p, Session: NewSessionNum(3, 4), Flag: "app", Level: Master, Seq: 9}, Left: time.Second}}},
		&Sync{Head: SlotHead{tg, 20, p, 4}, Last: true, Routes: []Route{{UID: "a", Owner: p, Session: NewSessionNum(3, 4), Flag: "app", Level: Master, Seq: 9}, {UID: "bb", Owner: p, Session: NewSessionNum(1, 4), Flag: "app", Level: Master, Seq: 8}}},
		&LookupAnswer{Groups: []GroupAnswer{{Target: tg, Suspect: true}}, Counts: []uint32{1}, Routes: []Route{{Owner: p, Session: 5, TTL: time.Second}}},
		&Touch{Head: SlotHead{tg, 20, p, 4}, Sessions: []Touched{{NewSessionNum(3, 4), time.Second}, {NewSessionNum(9, 4), 0}}},
		&Push{To: p, Frames: []PushFrame{{ID: "x", Payload: []byte("1"), Recipients: []Recipient{{"a", 3, 4}}}}},
	} {
		b, err := Marshal(m)
		require.NoError(t, err)
		got, err := UnmarshalAny(b)
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
}
