package bubble

import (
	"bytes"
	"strconv"
	"strings"
)

// frame is one operation of the NATS client protocol, with what rules look at.
type frame struct {
	bytes   []byte
	body    int    // where the payload begins in bytes, behind line and headers
	subject string // of PUB, HPUB, MSG, HMSG; else empty
	reply   string
}

// framer cuts the first whole frame off b and gives its length; 0 = more bytes are needed.
type framer func(b []byte) (f frame, n int)

// rawFrame takes whatever bytes there are: for connections that do not speak NATS.
func rawFrame(b []byte) (frame, int) { return frame{}, len(b) }

// natsFrame knows the four operations that carry a payload; all others are one line.
func natsFrame(b []byte) (frame, int) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		return frame{}, 0
	}
	words := strings.Fields(string(b[:end]))
	f, n := frame{}, end+2
	if len(words) == 0 {
		return f, n
	}
	var fixed int // words that are always there: the operation, the subject, a sid, the sizes
	switch strings.ToUpper(words[0]) {
	case "PUB":
		fixed = 3
	case "HPUB", "MSG":
		fixed = 4
	case "HMSG":
		fixed = 5
	default:
		return f, n
	}
	if len(words) < fixed {
		return f, n
	}
	f.subject = words[1]
	if len(words) > fixed {
		f.reply = words[replyAt(words[0])]
	}
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return f, n
	}
	f.body = n
	if fixed > 3 && strings.HasPrefix(strings.ToUpper(words[0]), "H") {
		headers, err := strconv.Atoi(words[len(words)-2])
		if err != nil {
			return f, n
		}
		f.body += headers
	}
	n += size + 2
	if len(b) < n {
		return frame{}, 0
	}
	return f, n
}

// payload is the message's own bytes, without headers; nil for other operations.
func (f *frame) payload() []byte {
	if f.subject == "" || f.body > len(f.bytes)-2 {
		return nil
	}
	return f.bytes[f.body : len(f.bytes)-2]
}

// replyAt is the reply's place: after the subject where a process publishes, after the
// subscription's number where the server delivers.
func replyAt(op string) int {
	if strings.HasSuffix(strings.ToUpper(op), "MSG") {
		return 3
	}
	return 2
}

// matches reports whether a subject is one of a pattern's, with * and >.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, word := range p {
		switch {
		case word == ">" && i == len(p)-1:
			return len(s) > i
		case i >= len(s) || word != "*" && word != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}
