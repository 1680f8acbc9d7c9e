package schema

import "fmt"

// Kind is the first element of each message: what it is. Requests and their answers differ by 64.
type Kind uint8

// The kinds of messages.
const (
	KindRegister Kind = 1 + iota
	KindCommit
	KindUnregister
	KindTouch
	KindSync
	KindRemove
	KindLookup
	KindExplain
	KindStatus
	KindPush
	KindKick
	KindSessions
	KindRevoke

	answerOffset Kind = 64
	// laterOffset is of what comes on an answer's subject after the answer.
	laterOffset Kind = 128
)

// The kinds of answers.
const (
	KindRegisterAnswer   = KindRegister + answerOffset
	KindCommitAnswer     = KindCommit + answerOffset
	KindUnregisterAnswer = KindUnregister + answerOffset
	KindTouchAnswer      = KindTouch + answerOffset
	KindSyncAnswer       = KindSync + answerOffset
	KindRemoveAnswer     = KindRemove + answerOffset
	KindLookupAnswer     = KindLookup + answerOffset
	KindExplainAnswer    = KindExplain + answerOffset
	KindStatusAnswer     = KindStatus + answerOffset
	KindPushAnswer       = KindPush + answerOffset
	KindKickAnswer       = KindKick + answerOffset
	KindSessionsAnswer   = KindSessions + answerOffset
	KindRevokeAnswer     = KindRevoke + answerOffset

	KindPushAcks = KindPush + laterOffset
)

var kinds = map[Kind]struct {
	name string
	make func() Message
}{
	KindRegister:         {"register", func() Message { return new(Register) }},
	KindCommit:           {"commit", func() Message { return new(Commit) }},
	KindUnregister:       {"unregister", func() Message { return new(Unregister) }},
	KindTouch:            {"touch", func() Message { return new(Touch) }},
	KindSync:             {"sync", func() Message { return new(Sync) }},
	KindRemove:           {"remove", func() Message { return new(Remove) }},
	KindLookup:           {"lookup", func() Message { return new(Lookup) }},
	KindExplain:          {"explain", func() Message { return new(Explain) }},
	KindStatus:           {"status", func() Message { return new(Status) }},
	KindPush:             {"push", func() Message { return new(Push) }},
	KindKick:             {"kick", func() Message { return new(Kick) }},
	KindSessions:         {"sessions", func() Message { return new(Sessions) }},
	KindRevoke:           {"revoke", func() Message { return new(Revoke) }},
	KindRegisterAnswer:   {"register answer", func() Message { return new(RegisterAnswer) }},
	KindCommitAnswer:     {"commit answer", func() Message { return new(CommitAnswer) }},
	KindUnregisterAnswer: {"unregister answer", func() Message { return new(UnregisterAnswer) }},
	KindTouchAnswer:      {"touch answer", func() Message { return new(TouchAnswer) }},
	KindSyncAnswer:       {"sync answer", func() Message { return new(SyncAnswer) }},
	KindRemoveAnswer:     {"remove answer", func() Message { return new(RemoveAnswer) }},
	KindLookupAnswer:     {"lookup answer", func() Message { return new(LookupAnswer) }},
	KindExplainAnswer:    {"explain answer", func() Message { return new(ExplainAnswer) }},
	KindStatusAnswer:     {"status answer", func() Message { return new(StatusAnswer) }},
	KindPushAnswer:       {"push answer", func() Message { return new(PushAnswer) }},
	KindKickAnswer:       {"kick answer", func() Message { return new(KickAnswer) }},
	KindSessionsAnswer:   {"sessions answer", func() Message { return new(SessionsAnswer) }},
	KindRevokeAnswer:     {"revoke answer", func() Message { return new(RevokeAnswer) }},
	KindPushAcks:         {"push acks", func() Message { return new(PushAcks) }},
}

func (k Kind) String() string {
	if e, ok := kinds[k]; ok {
		return e.name
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}
