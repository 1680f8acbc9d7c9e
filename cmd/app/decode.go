package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/rollcall-mesh/rollcall/schema"
)

// DecodeCmd prints one message. `nats sub --translate 'rollcall decode'` calls it for each.
type DecodeCmd struct{}

// maxDecode bounds what is read, in bytes: more than any server lets through.
const maxDecode = 64 << 20

// Run prints a message of ours as one JSON object; JSON and nothing pass as they are.
func (DecodeCmd) Run(s *session) error {
	b, err := io.ReadAll(io.LimitReader(s.in, maxDecode))
	if err != nil {
		return fmt.Errorf("read the message: %w", err)
	}
	text, err := decode(b)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s\n", text)
	return err
}

func decode(b []byte) ([]byte, error) {
	if trimmed := bytes.TrimSpace(b); len(trimmed) == 0 || json.Valid(trimmed) {
		return trimmed, nil
	}
	m, err := schema.UnmarshalAny(b)
	if err != nil {
		return nil, fmt.Errorf("neither JSON nor a message of the mesh: %w", err)
	}
	return schema.Describe(m), nil
}
