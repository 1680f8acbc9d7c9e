package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// page writes {"results":[..],"next":n} with as many of n rows as fit room bytes; next is the first
// that was left out.
func page[T any](n, room int, row func(i int) T) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(`{"results":[`)
	for i := range n {
		text, err := json.Marshal(row(i))
		if err != nil {
			return nil, err
		}
		switch {
		case out.Len()+len(text) <= room:
		case i == 0:
			return nil, fmt.Errorf("%w: what is to be said of one user has %d bytes, %d fit a message of this NATS server", ErrTooLarge, len(text), room)
		default:
			out.WriteString(`],"next":` + strconv.Itoa(i) + "}")
			return out.Bytes(), nil
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(text)
	}
	out.WriteString("]}")
	return out.Bytes(), nil
}
