package app

import "github.com/alecthomas/kong"

// CLI is the command line. Each flag may also be given as a variable, ROLLCALL_ and its name, and in
// the config file; the command line wins, then the environment, then the file. A command that is offline
// asks nothing of NATS.
type CLI struct {
	Config     kong.ConfigFlag `placeholder:"FILE" help:"Settings as YAML or JSON: the flags' names, at the top or under a command's name."`
	Connection `embed:"" group:"nats"`
	Logging    `embed:"" group:"log"`

	Demo      DemoCmd      `cmd:"" group:"roles" help:"A whole mesh in this process, with a page to click on."`
	Gateway   GatewayCmd   `cmd:"" group:"roles" help:"Take WebSocket clients."`
	Authority AuthorityCmd `cmd:"" group:"roles" help:"Hold the directory of who is where."`
	Delivery  DeliveryCmd  `cmd:"" group:"roles" help:"Serve look-ups and pushes to backends."`
	All       AllCmd       `cmd:"" group:"roles" help:"The three in one process."`

	Lookup  LookupCmd  `cmd:"" group:"ask" help:"Where users are connected."`
	Push    PushCmd    `cmd:"" group:"ask" help:"Send a message to users."`
	Kick    KickCmd    `cmd:"" group:"ask" help:"End sessions of a user."`
	Watch   WatchCmd   `cmd:"" group:"ask" help:"Follow users: their state now, then each change."`
	Events  EventsCmd  `cmd:"" group:"ask" help:"Print events as they come, of all users or of some."`
	Connect ConnectCmd `cmd:"" group:"ask" offline:"" help:"Be a client, in this terminal."`

	Explain  ExplainCmd  `cmd:"" group:"operate" help:"All that the authority holds of a user."`
	Slots    SlotsCmd    `cmd:"" group:"operate" help:"Who owns which slots, and in what state."`
	Sessions SessionsCmd `cmd:"" group:"operate" help:"The sessions of a gateway, as it tells of them."`
	Nodes    NodesCmd    `cmd:"" group:"operate" help:"The processes of the mesh."`
	Stats    StatsCmd    `cmd:"" group:"operate" help:"Users and sessions online."`
	Drain    DrainCmd    `cmd:"" group:"operate" help:"End a gateway or an authority in good order, and wait for it."`
	Setup    SetupCmd    `cmd:"" group:"operate" help:"Show or change the settings that all processes share."`

	Token      TokenCmd   `cmd:"" group:"tools" offline:"" help:"Make a token for development."`
	Decode     DecodeCmd  `cmd:"" group:"tools" offline:"" help:"Print a message of the mesh from standard input as JSON; made for nats sub --translate."`
	ConfigFile ConfigCmd  `cmd:"" name:"config" group:"tools" help:"Print or check settings."`
	Version    VersionCmd `cmd:"" group:"tools" offline:"" help:"Print the version."`
}

var groups = []kong.Group{
	{Key: "roles", Title: "Run:"},
	{Key: "ask", Title: "Ask and send:"},
	{Key: "operate", Title: "Operate:"},
	{Key: "tools", Title: "Tools:"},
	{Key: "jwt", Title: "Tokens, with --auth jwt:"},
	{Key: "limits", Title: "Limits:"},
	{Key: "api", Title: "HTTP API:"},
	{Key: "nats", Title: "NATS:"},
	{Key: "log", Title: "Log:"},
}

// printHelp leaves the flags of NATS out of the help of a command that has no use for them.
func printHelp(o kong.HelpOptions, c *kong.Context) error {
	if command := c.Selected(); command != nil && command.Tag.Has("offline") {
		for _, f := range c.Model.Flags {
			f.Hidden = f.Hidden || f.Group != nil && f.Group.Key == "nats"
		}
	}
	return kong.DefaultHelpPrinter(o, c)
}
