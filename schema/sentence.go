package schema

import (
	"strings"
	"unicode/utf8"
)

// MaxSentence bounds what an error says to people in an answer or a frame, in bytes: it quotes what
// came from outside, and that may be as large as a message, larger even in quotes.
const MaxSentence = 1024

// Sentence gives a text of an error as it is sent: valid UTF-8 of at most MaxSentence bytes.
func Sentence(s string) string { return Cut(s, MaxSentence) }

// Cut gives the beginning of a text that has at most most bytes, as valid UTF-8: a ? stands for what
// is none.
func Cut(s string, most int) string {
	s = s[:min(len(s), most+utf8.UTFMax)] // only so that a large text is not copied
	s = strings.ToValidUTF8(s, "?")
	for len(s) > most {
		_, last := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-last]
	}
	return s
}
