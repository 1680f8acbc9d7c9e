package subjects

// Inbox is the prefix under which a role takes its answers, so that none can read another's: the
// server's permissions name it. An operator, who may read everything, keeps the default.
func Inbox(role string) string { return "_INBOX_" + role }
