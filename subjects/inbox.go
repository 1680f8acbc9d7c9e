package subjects

import "strings"

// inboxes is what the prefixes of all inboxes begin with.
const inboxes = "_INBOX"

// RefusedAnswer reports whether what the server refused, by the text of its error, is an answer. That is no
// missing permission: who may answer may for a while, and only over the connection that was asked.
func RefusedAnswer(text string) bool { return strings.Contains(text, `Publish to "`+inboxes) }

// Inbox is the prefix under which a role takes its answers, so that none can read another's: the
// server's permissions name it. An operator, who may read everything, keeps the default.
func Inbox(role string) string { return inboxes + "_" + role }
