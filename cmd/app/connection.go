package app

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Connection are the flags that say how NATS is reached: the same for every command.
type Connection struct {
	NATS     []string `name:"nats" env:"ROLLCALL_NATS,NATS_URL" placeholder:"URL" help:"NATS servers, with user:password@ where needed. Default: nats://127.0.0.1:4222, or those of the context."`
	Creds    string   `name:"creds" env:"ROLLCALL_CREDS,NATS_CREDS" placeholder:"FILE" help:"File with NATS credentials."`
	User     string   `name:"user" env:"ROLLCALL_USER,NATS_USER" placeholder:"NAME" help:"NATS user. Default, with a password alone: the role's own as in deploy/nats.conf, operator for commands."`
	Password string   `name:"password" secret:"" env:"ROLLCALL_PASSWORD,NATS_PASSWORD" placeholder:"SECRET" help:"Its password. Arguments stand in the process list: give it as $$ROLLCALL_PASSWORD or in the config file."`
	Context  string   `name:"context" env:"ROLLCALL_CONTEXT,NATS_CONTEXT" placeholder:"NAME" help:"Context of the nats CLI: its servers and credentials."`
	CA       string   `name:"tls-ca" env:"ROLLCALL_TLS_CA,NATS_CA" placeholder:"FILE" help:"Certificate authorities of the servers."`
	Cert     string   `name:"tls-cert" env:"ROLLCALL_TLS_CERT,NATS_CERT" placeholder:"FILE" help:"Certificate of this client."`
	Key      string   `name:"tls-key" env:"ROLLCALL_TLS_KEY,NATS_KEY" placeholder:"FILE" help:"Its key."`
	Prefix   string   `name:"prefix" placeholder:"NAME" help:"In front of every subject; names bucket and service too."`
	Inbox    string   `name:"inbox-prefix" placeholder:"NAME" help:"Where answers go. Default: _INBOX_ and the role, as deploy/nats.conf allows it."`
}

// prefix gives the checked prefix.
func (c *Connection) prefix() (subjects.Prefix, error) {
	p := subjects.Prefix(c.Prefix)
	if err := p.Check(); err != nil {
		return "", fmt.Errorf("%w: --prefix: %w", errUsage, err)
	}
	return p, nil
}

// dialer gives what opens connections of a role with these flags.
func (c *Connection) dialer(role deploy.User) (*dialer, error) {
	for flag, file := range map[string]string{"--creds": c.Creds, "--tls-ca": c.CA, "--tls-cert": c.Cert, "--tls-key": c.Key} {
		if err := readable(file); err != nil {
			return nil, fmt.Errorf("%w: %s %s: %w", errUsage, flag, file, reason(err))
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		return nil, fmt.Errorf("%w: --tls-cert and --tls-key go together", errUsage)
	}
	if err := nats.CustomInboxPrefix(cmp.Or(c.Inbox, "_"))(new(nats.Options)); err != nil {
		return nil, fmt.Errorf("%w: --inbox-prefix %q: it takes no wildcard, and no dot at its end", errUsage, c.Inbox)
	}
	d := &dialer{servers: strings.Join(c.NATS, ","), context: c.Context}
	if d.servers == "" && d.context == "" {
		d.servers = nats.DefaultURL
	}
	login := c.as(role)
	d.options = login.credentials()
	if inbox := login.inbox(role); inbox != "" {
		d.options = append(d.options, nats.CustomInboxPrefix(inbox))
	}
	return d, nil
}

// as gives the flags with the role's own user where a password stands alone: a server would be told
// neither of the two.
func (c Connection) as(role deploy.User) Connection {
	if c.Password != "" && c.user() == "" && c.Creds == "" && c.Context == "" {
		c.User = string(role)
	}
	return c
}

func (c *Connection) credentials() []nats.Option {
	var o []nats.Option
	if c.User != "" {
		o = append(o, nats.UserInfo(c.User, c.Password))
	}
	if c.Creds != "" {
		o = append(o, nats.UserCredentials(c.Creds))
	}
	if c.CA != "" {
		o = append(o, nats.RootCAs(c.CA))
	}
	if c.Cert != "" {
		o = append(o, nats.ClientCert(c.Cert, c.Key))
	}
	return o
}

// inbox is the prefix of answers: the flag, else that of the user given, which need not be the
// command's own role, else that of the role. An operator keeps NATS's default.
func (c *Connection) inbox(role deploy.User) string {
	if c.Inbox != "" {
		return c.Inbox
	}
	if c.Context != "" && role == deploy.Operator {
		return "" // what the context says
	}
	for _, u := range deploy.Users() {
		if string(u) == c.user() {
			role = u
		}
	}
	if role == deploy.Operator || role == deploy.System {
		return ""
	}
	return subjects.Inbox(string(role))
}

// user is the name that is given to the server, where it is known here.
func (c *Connection) user() string {
	if c.User != "" {
		return c.User
	}
	for _, server := range c.NATS {
		if u, err := url.Parse(server); err == nil && u.User != nil {
			return u.User.Username()
		}
	}
	return ""
}

func readable(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	return f.Close()
}
