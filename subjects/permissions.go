package subjects

// Permissions is what a role may publish, and what it may subscribe to. An answer to a request is
// allowed beside it, as a response.
type Permissions struct {
	Publish   []string
	Subscribe []string
}

// GatewayPermissions are those of gateway processes. Like everybody else they never publish
// Changed: a forged notice would poison the highest fence known.
func (p Prefix) GatewayPermissions() Permissions {
	return Permissions{
		Publish: append(append([]string{
			p.BucketKey(GatewayKeys + ".*"), p.join("slot", ">"), p.join("kick", ">"), p.AllUp(), p.AuthConnect(), p.AuthWatch(),
		}, p.askAuthorities()...), p.readBucket()...),
		Subscribe: []string{
			p.inbox("gateway"), p.Changed(), p.SysDisconnect(),
			p.join("push", ">"), p.join("kick", ">"), p.join("gateway", ">"), p.Revoke(), p.AllEvents(),
		},
	}
}

// AuthorityPermissions are those of authority processes.
func (p Prefix) AuthorityPermissions() Permissions {
	return Permissions{
		Publish: append(append(append([]string{
			p.BucketSubjects(), p.AllEvents(), p.lastSeenKey("*"),
		}, p.askAuthorities()...), p.readBucket()...), "$JS.API.INFO", "$JS.API.STREAM.CREATE."+p.BucketStream(), "$JS.API.STREAM.PURGE."+p.BucketStream()),
		Subscribe: []string{
			p.inbox("authority"), p.Changed(), p.SysDisconnect(), p.join("slot", ">"), p.join("authority", ">"),
		},
	}
}

// DeliveryPermissions are those of processes that serve or use package delivery.
func (p Prefix) DeliveryPermissions() Permissions {
	return Permissions{
		Publish: append(append([]string{
			p.join("push", ">"), p.join("kick", ">"), p.join("slot", "*", "*", string(Remove)),
			p.join("gateway", "*", "*", "sessions"), p.Revoke(), p.join("fallback", ">"), p.lastSeenGet("*"),
		}, p.askAuthorities()...), p.readBucket()...),
		Subscribe: append(append([]string{
			p.inbox("delivery"), p.Changed(), p.SysDisconnect(), p.AllEvents(),
		}, p.service()...), "$SRV.>"),
	}
}

// BackendPermissions are those of services in any language, which ask the service and answer what
// clients send. They may consume the stream of events, where there is one.
func (p Prefix) BackendPermissions() Permissions {
	return Permissions{
		Publish:   append(p.service(), p.consumeEvents()...),
		Subscribe: []string{p.inbox("backend"), p.AllEvents(), p.AllUp(), p.AuthConnect(), p.AuthWatch(), p.join("fallback", ">")},
	}
}

// askAuthorities are the questions to authority processes. No role asks a process to drain: an
// operator does.
func (p Prefix) askAuthorities() (list []string) {
	for _, op := range [...]AuthorityOp{Lookup, Explain, Status} {
		list = append(list, p.join("authority", "*", "*", string(op)))
	}
	return list
}

// readBucket is what a reader of the bucket publishes.
func (p Prefix) readBucket() []string {
	stream := p.BucketStream()
	return []string{
		"$JS.API.STREAM.INFO." + stream, "$JS.API.STREAM.MSG.GET." + stream,
		"$JS.API.CONSUMER.CREATE." + stream + ".*." + p.BucketSubjects(), "$JS.API.CONSUMER.DELETE." + stream + ".*",
		"$JS.FC." + stream + ".>",
	}
}

// consumeEvents is what a consumer of the stream of events publishes.
func (p Prefix) consumeEvents() []string {
	stream := p.EventStream()
	return []string{
		"$JS.API.STREAM.INFO." + stream, "$JS.API.CONSUMER.CREATE." + stream + ".>", "$JS.API.CONSUMER.INFO." + stream + ".*",
		"$JS.API.CONSUMER.MSG.NEXT." + stream + ".*", "$JS.API.CONSUMER.DELETE." + stream + ".*", "$JS.ACK." + stream + ".>",
		"$JS.FC." + stream + ".>",
	}
}

// service lists the calls of the service by name: changed stands among them under the same root.
func (p Prefix) service() (calls []string) {
	for _, call := range [...]string{"lookup", "push", "kick", "sessions", "explain", "slots", "stats"} {
		calls = append(calls, p.ServiceCall(call))
	}
	return calls
}

func (p Prefix) inbox(role string) string { return Inbox(role) + ".>" }
