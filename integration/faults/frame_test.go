package faults

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// frame is one line of the NATS protocol, with its payload.
type frame struct {
	toServer       bool
	op             string // PUB, HPUB, MSG, HMSG, ...
	subject, reply string // of these four
	bytes          []byte
}

// frames reads what one side of a connection says.
type frames struct {
	toServer bool
	in       *bufio.Reader
}

func newFrames(in io.Reader, toServer bool) *frames {
	return &frames{toServer: toServer, in: bufio.NewReaderSize(in, 64<<10)}
}

func (r *frames) next() (frame, error) {
	line, err := r.in.ReadString('\n')
	if err != nil {
		return frame{}, err
	}
	f := frame{toServer: r.toServer, bytes: []byte(line)}
	words := strings.Fields(line)
	if len(words) == 0 {
		return f, nil
	}
	f.op = strings.ToUpper(words[0])
	head := 0 // words between the subject and the reply
	switch f.op {
	case "PUB", "HPUB":
	case "MSG", "HMSG":
		head = 1
	default:
		return f, nil
	}
	sizes := 1 + len(f.op) - len(strings.TrimPrefix(f.op, "H")) // HPUB and HMSG name two
	if len(words) < 2+head+sizes {
		return f, fmt.Errorf("line of NATS too short: %q", line)
	}
	f.subject = words[1]
	if len(words) > 2+head+sizes {
		f.reply = words[2+head]
	}
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return f, err
	}
	payload := make([]byte, size+2)
	_, err = io.ReadFull(r.in, payload)
	f.bytes = append(f.bytes, payload...)
	return f, err
}

func TestFrames(t *testing.T) {
	said := "INFO {\"a\":1}\r\nPUB a.b 5\r\nhello\r\nHPUB c in.1 2 4\r\n\r\n\r\n\r\nMSG d 7 0\r\n\r\nHMSG e 9 in.2 1 3\r\nabc\r\nPING\r\n"
	r := newFrames(strings.NewReader(said), true)
	var got []string
	all := ""
	for {
		f, err := r.next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		got = append(got, f.op+" "+f.subject+" "+f.reply)
		all += string(f.bytes)
	}
	require.Equal(t, []string{"INFO  ", "PUB a.b ", "HPUB c in.1", "MSG d ", "HMSG e in.2", "PING  "}, got)
	require.Equal(t, said, all)
}
