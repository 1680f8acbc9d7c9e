package app

import (
	"io"
	"log/slog"
)

// Logging are the flags of what a process says on standard error.
type Logging struct {
	Level  string `name:"log-level" enum:"debug,info,warn,error," default:"" placeholder:"LEVEL" help:"debug, info, warn or error. Default: info for roles, warn for the demo and commands."`
	Format string `name:"log-format" enum:"text,json" default:"text" placeholder:"text|json" help:"Form of a log line."`
}

func (l Logging) logger(w io.Writer, otherwise slog.Level) *slog.Logger {
	level := otherwise
	if l.Level != "" {
		_ = level.UnmarshalText([]byte(l.Level)) // one of the enum: always a level
	}
	opts := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
