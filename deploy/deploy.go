package deploy

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed nats.conf
var natsConf string

// User is a user of the server configuration: one a role.
type User string

// The users. All but System are of the account that the mesh lives in.
const (
	Gateway   User = "gateway"
	Authority User = "authority"
	Delivery  User = "delivery"
	Backend   User = "backend"  // services that ask and push
	Operator  User = "operator" // people with the nats CLI and rollcall
	System    User = "system"   // of the server's system account
)

// Users lists them.
func Users() []User { return []User{Gateway, Authority, Delivery, Backend, Operator, System} }

// PasswordVariable names the variable of the configuration, and of a real server's environment,
// that holds the user's password.
func (u User) PasswordVariable() string { return "ROLLCALL_PASSWORD_" + strings.ToUpper(string(u)) }

// StoreVariable names the variable that holds the folder of JetStream's files.
const StoreVariable = "ROLLCALL_NATS_STORE"

// Account is the account that the mesh lives in.
const Account = "ROLLCALL"

// NATS gives the server configuration as it stands in nats.conf.
func NATS() string { return natsConf }

// With gives the server configuration with its variables set: the folder of JetStream's files, and
// a password for each of Users.
func With(store string, passwords map[User]string) string {
	var b strings.Builder
	set := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, strconv.Quote(value)) }
	set(StoreVariable, store)
	for _, u := range Users() {
		if p, ok := passwords[u]; ok {
			set(u.PasswordVariable(), p)
		}
	}
	return b.String() + natsConf
}
