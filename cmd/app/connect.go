package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// ConnectCmd is a client in the terminal: what others send is printed, each line typed is sent.
type ConnectCmd struct {
	Output
	URL     string           `name:"url" default:"ws://127.0.0.1:8080/ws" placeholder:"URL" help:"A gateway. Default: ws://127.0.0.1:8080/ws."`
	Token   string           `name:"token" aliases:"uid" secret:"" required:"" placeholder:"TOKEN" help:"The client's token; where the gateway believes everybody (the demo, --auth insecure), the user: --uid is the same. Better as $$ROLLCALL_TOKEN when it is a real one."`
	Device  schema.DeviceID  `name:"device" placeholder:"ID" help:"This device."`
	Flag    schema.Flag      `name:"flag" placeholder:"NAME" help:"Its class, such as app, web or desktop."`
	Level   string           `name:"level" enum:"master,slave," default:"" placeholder:"master|slave" help:"Its level."`
	Resume  schema.SessionID `name:"resume" placeholder:"ID" help:"The session that this one continues."`
	Msgpack bool             `name:"msgpack" help:"Speak msgpack, not JSON, with the gateway."`
	Watch   []schema.UID     `name:"watch" placeholder:"UID" help:"Users to follow."`
}

// Run stays connected until it is ended or the gateway says stop. A line "@bob text" is sent as
// {"to":"bob","text":"text"}; a line of JSON as it is; another as {"text":...}.
func (c *ConnectCmd) Run(s *session) error {
	t := &terminal{command: c, out: s.out, err: s.err}
	config := c.config(t)
	config.Logger = s.log(slog.LevelWarn)
	cl, err := client.New(config)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if err := cl.Watch(s.ctx, c.Watch...); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go t.readLines(ctx, s.in, cl) // ends with the program: a read from a terminal cannot be stopped
	return cl.Run(ctx)
}

func (c *ConnectCmd) config(t *terminal) client.Config {
	level, _ := schema.ParseLevel(c.Level) // one of the enum
	encoding := schema.JSON
	if c.Msgpack {
		encoding = schema.Msgpack
	}
	return client.Config{
		URL: c.URL, Token: client.FixedToken(c.Token), Name: "rollcall/" + version(), Encoding: encoding,
		Device: c.Device, Flag: c.Flag, Level: level, Resume: c.Resume,
		OnMessage: t.message, OnPresence: t.presence, OnWatchRefused: t.refused, OnState: t.state,
	}
}

// terminal prints what happens to a client.
type terminal struct {
	command *ConnectCmd

	mu  sync.Mutex // one line at a time
	out io.Writer
	err io.Writer
}

// say prints a line for people, or the object in the place of it.
func (t *terminal) say(object any, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.command.JSON {
		_ = printJSON(t.out, object) // the terminal is gone: nobody is left to tell
		return
	}
	fmt.Fprintf(t.out, "%s  %s\n", time.Now().Format(clock), fmt.Sprintf(format, args...))
}

func (t *terminal) message(m client.Message) {
	t.say(schema.ServerFrame{Type: schema.TypeRecv, ID: m.ID, From: m.From, Payload: m.Payload},
		"%s: %s", printable(string(m.From)), printable(text(m.Payload)))
}

func (t *terminal) presence(users []schema.WatchedUser) {
	for _, u := range users {
		t.say(schema.ServerFrame{Type: schema.TypePresence, Users: []schema.WatchedUser{u}},
			"%s is %s%s  %s", printable(string(u.UID)), u.State, devices(u.Devices...), u.Reason)
	}
}

// refused tells of users whom the client may not watch.
func (t *terminal) refused(uids []schema.UID, why error) {
	for _, u := range uids {
		t.say(stateLine{State: "not watched", UID: u, Error: why.Error()}, "%s is not watched: %s", printable(string(u)), printable(oneLine(why)))
	}
}

// stateLine is a change of the connection, as JSON.
type stateLine struct {
	State   string           `json:"state"`
	UID     schema.UID       `json:"uid,omitempty"` // of one who is not watched
	Session schema.SessionID `json:"session,omitempty"`
	Node    schema.NodeID    `json:"node,omitempty"`
	DelayMS int64            `json:"delay_ms,omitempty"`
	Error   string           `json:"error,omitempty"`
}

func (t *terminal) state(s client.State) {
	line := stateLine{State: s.Phase.String(), Session: s.Session.Session, Node: s.Session.Gateway.Node, DelayMS: s.Delay.Milliseconds()}
	human := line.State
	switch s.Phase {
	case client.Connected:
		human += fmt.Sprintf(" to %s as %s, session %s", line.Node, printable(string(s.Session.UID)), line.Session)
	case client.Waiting:
		human += fmt.Sprintf(" %v before the next attempt", s.Delay.Round(time.Millisecond))
	}
	if s.Err != nil {
		line.Error = s.Err.Error()
		human += ": " + printable(strings.TrimPrefix(oneLine(s.Err), client.ErrStopped.Error()+": ")) // the phase says that
	}
	t.say(line, "%s", human)
}

// text is a message's text where it has one, else the JSON.
func text(payload json.RawMessage) string {
	var said struct{ Text string }
	if json.Unmarshal(payload, &said) == nil && said.Text != "" {
		return said.Text
	}
	var plain string
	if json.Unmarshal(payload, &plain) == nil {
		return plain
	}
	return string(payload)
}

// readLines sends what is typed, line after line.
func (t *terminal) readLines(ctx context.Context, in io.Reader, cl *client.Client) {
	scanner := bufio.NewScanner(in)
	for scanner.Scan() && ctx.Err() == nil {
		line := strings.TrimSpace(scanner.Text())
		if line == "" {
			continue
		}
		if err := cl.Ready(ctx); err != nil {
			return
		}
		reply, err := cl.Send(ctx, typed(line))
		if errors.Is(err, context.Canceled) {
			return
		}
		t.sent(reply, err)
	}
}

func (t *terminal) sent(reply []byte, err error) {
	if err != nil {
		t.say(stateLine{State: "not sent", Error: err.Error()}, "not sent: %s", printable(oneLine(err)))
		return
	}
	t.say(schema.ServerFrame{Type: schema.TypeSent, Reply: reply}, "sent: %s", printable(string(reply)))
}

// typed is the JSON that a line stands for.
func typed(line string) []byte {
	if json.Valid([]byte(line)) {
		return []byte(line)
	}
	said := map[string]string{"text": line}
	if to, ok := strings.CutPrefix(line, "@"); ok {
		said["to"], said["text"], _ = strings.Cut(to, " ")
	}
	b, _ := json.Marshal(said) // strings always encode
	return b
}
