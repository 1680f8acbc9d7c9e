package schema

import "time"

// Register asks for routes to be added; what waits for one slot goes together.
type Register struct {
	Head   SlotHead
	Logins []Login // at most MaxEntries
}

// Login is one route to be added.
type Login struct {
	Route         Route // its owner is Head.From; order, ages and TTL do not travel
	ResumeBoot    BootID
	ResumeSession SessionNum    // with ResumeBoot: the client's previous session
	Left          time.Duration // what is left of the login's deadline
}

// Kind is KindRegister.
func (*Register) Kind() Kind { return KindRegister }

func (m *Register) fields(c *coder) {
	c.slotHead(&m.Head)
	list(c, "logins", &m.Logins, MaxEntries, func(l *Login) {
		c.array("entry", func() {
			c.login(&l.Route)
			text(c, "resume boot", &l.ResumeBoot, bootLen)
			number(c, "resume session", &l.ResumeSession)
			c.millis("left", &l.Left)
		})
		if !c.writing {
			l.Route.Owner = m.Head.From
		}
	})
}

// RegisterAnswer answers each login of a register, in order.
type RegisterAnswer struct {
	Head    AnswerHead
	Results []LoginResult
}

// LoginResult says how a login, or its commit, ended: CodeOK committed under Order; CodeConflict
// pending under Token until the routes named have ended; anything else as the code says.
type LoginResult struct {
	Code       Code
	Order      Order
	Token      CommitToken
	Conflicts  []Conflict
	RetryAfter time.Duration
	Close      CloseCode // with CodeSuperseded and CodeRefused
	Why        string    // with CodeRefused and CodeBad: a sentence
}

// CommitToken names one pending login: it stands for fence, identity and a random part.
type CommitToken string

// Conflict is a route that has to end before a login can be committed.
type Conflict struct {
	Owner   Process
	Session SessionNum
	Close   CloseCode // 3502 kicked or 3503 replaced
	Device  DeviceID
	Forced  time.Duration // until the authority takes it as ended without proof
}

const (
	maxToken     = 64
	maxConflicts = 1024
)

// Kind is KindRegisterAnswer.
func (*RegisterAnswer) Kind() Kind { return KindRegisterAnswer }

func (m *RegisterAnswer) fields(c *coder) {
	c.answerHead(&m.Head)
	list(c, "results", &m.Results, MaxEntries, c.loginResult)
}

func (c *coder) loginResult(r *LoginResult) {
	c.array("entry", func() {
		c.code("code", &r.Code)
		number(c, "order", &r.Order.Fence)
		number(c, "n", &r.Order.N)
		text(c, "token", &r.Token, maxToken)
		list(c, "conflicts", &r.Conflicts, maxConflicts, func(x *Conflict) {
			c.array("entry", func() {
				c.process("owner", &x.Owner)
				number(c, "session", &x.Session)
				number(c, "close", &x.Close)
				text(c, "device", &x.Device, MaxDevice)
				c.millis("forced", &x.Forced)
			})
		})
		c.millis("retry after", &r.RetryAfter)
		number(c, "close", &r.Close)
		text(c, "why", &r.Why, maxWhy)
	})
}

// Commit asks that pending logins be made visible, after their conflicts have ended.
type Commit struct {
	Head    SlotHead
	Entries []CommitEntry // at most MaxEntries
}

// CommitEntry is one pending login, and how each conflict that its token names has ended.
type CommitEntry struct {
	UID     UID
	Session SessionNum
	Token   CommitToken
	Ends    []End
}

// End says how one conflicting route has ended.
type End struct {
	Owner   Process
	Session SessionNum
	How     Ending
}

// Ending is how a conflict ended.
type Ending uint8

// The three ways in which a conflict ends.
const (
	EndAnswered Ending = 1 + iota // its owner says that it is out
	EndGone                       // its owner is gone: key dead, another boot, or three no-responders
	EndForced                     // two seconds have passed on the authority's clock
)

var endingNames = [...]string{"none", "answered", "gone", "forced"}

func (e Ending) String() string { return endingNames[min(int(e), len(endingNames)-1)] }

// Kind is KindCommit.
func (*Commit) Kind() Kind { return KindCommit }

func (m *Commit) fields(c *coder) {
	c.slotHead(&m.Head)
	list(c, "entries", &m.Entries, MaxEntries, func(e *CommitEntry) {
		c.array("entry", func() {
			c.uid("uid", &e.UID)
			number(c, "session", &e.Session)
			text(c, "token", &e.Token, maxToken)
			list(c, "ends", &e.Ends, maxConflicts, func(x *End) {
				c.array("entry", func() {
					c.process("owner", &x.Owner)
					number(c, "session", &x.Session)
					c.ending("how", &x.How)
				})
			})
		})
	})
}

func (c *coder) ending(what string, e *Ending) {
	n := uint64(*e)
	c.uint(what, &n, uint64(EndForced))
	if n == 0 {
		c.fail("%s 0 is none", what)
	}
	if !c.writing {
		*e = Ending(n)
	}
}

// CommitAnswer answers each entry of a commit, in order.
type CommitAnswer struct {
	Head    AnswerHead
	Results []LoginResult
}

// Kind is KindCommitAnswer.
func (*CommitAnswer) Kind() Kind { return KindCommitAnswer }

func (m *CommitAnswer) fields(c *coder) {
	c.answerHead(&m.Head)
	list(c, "results", &m.Results, MaxEntries, c.loginResult)
}
