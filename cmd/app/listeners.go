package app

import (
	"fmt"
	"net"
	"strings"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Listener is one --listen value: ADDR or NAME=ADDR. The first without a name is called ws, the
// others ws2, ws3 and so on.
type Listener struct {
	Name    schema.Listener
	Address string
}

// UnmarshalText reads it.
func (l *Listener) UnmarshalText(text []byte) error {
	name, address, named := strings.Cut(string(text), "=")
	if !named {
		name, address = "", string(text)
	}
	if named {
		if err := schema.Listener(name).Check(); err != nil {
			return err
		}
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%q is no HOST:PORT", address)
	}
	*l = Listener{Name: schema.Listener(name), Address: address}
	return nil
}

// MarshalText writes it.
func (l Listener) MarshalText() ([]byte, error) {
	if l.Name == "" {
		return []byte(l.Address), nil
	}
	return []byte(string(l.Name) + "=" + l.Address), nil
}

// named gives each listener its name, and refuses a name that stands twice.
func named(list []Listener) ([]Listener, error) {
	out := make([]Listener, len(list))
	taken := make(map[schema.Listener]bool)
	for i, l := range list {
		if l.Name == "" {
			l.Name = "ws"
			if i > 0 {
				l.Name = schema.Listener(fmt.Sprintf("ws%d", i+1))
			}
		}
		if taken[l.Name] {
			return nil, fmt.Errorf("%w: --listen: two listeners are called %s", errUsage, l.Name)
		}
		taken[l.Name], out[i] = true, l
	}
	return out, nil
}

// loopback reports whether only this machine can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
