package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

var (
	// ErrBadToken is returned when a token does not prove who its bearer is: wrong signature or
	// algorithm, a claim missing or of the wrong form. The session is closed with 3500.
	ErrBadToken = errors.New("token refused")
	// ErrTokenExpired is returned when a token was good once. The session is closed with 3005.
	ErrTokenExpired = errors.New("token expired")
)

// Credentials are what a client says of itself, its form checked.
type Credentials struct {
	Token    string
	Device   schema.DeviceID
	Flag     schema.Flag
	Level    schema.Level
	Addr     string // of the client's end of the connection
	Listener schema.Listener
}

// Identity is who a client is, proven.
type Identity struct {
	UID      schema.UID
	Device   schema.DeviceID
	Flag     schema.Flag
	Level    schema.Level
	Gen      schema.Generation
	TokenID  string
	Expires  time.Time    // zero: never
	Watch    []schema.UID // whose presence it may watch, beside its own
	WatchAny bool         // it may watch everybody, where no policy is asked
}

// Authenticator tells who a client is. It returns ErrBadToken or ErrTokenExpired where the client
// is at fault; any other error means that it could not tell, and the client may try again later.
// What the token says of device, flag and level wins over the credentials. It is called
// concurrently and gives up when ctx ends.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credentials) (Identity, error)
}

// Insecure takes the token as the uid: for demonstrations and tests. A gateway refuses it on
// listeners that others than this machine can reach.
type Insecure struct{}

func (Insecure) localOnly() {}

// Authenticate believes everything.
func (Insecure) Authenticate(_ context.Context, c Credentials) (Identity, error) {
	id := Identity{UID: schema.UID(c.Token), Device: c.Device, Flag: c.Flag, Level: c.Level, WatchAny: true}
	return id, id.check()
}

// check tells what is wrong with an identity: a token that names it is not good.
func (id *Identity) check() error {
	if err := id.wrong(); err != nil {
		return fmt.Errorf("%w: %w", ErrBadToken, err)
	}
	return nil
}

// wrong tells the first thing that is out of its range, whoever is to blame: it goes into a close
// reason, which is one line.
func (id *Identity) wrong() error {
	switch err := cmp.Or(id.UID.Check(), id.Device.Check(), id.Flag.Check()); {
	case err != nil:
		return err
	case len(id.TokenID) > schema.MaxTokenID:
		return fmt.Errorf("token id has %d bytes: it takes at most %d", len(id.TokenID), schema.MaxTokenID)
	case len(id.Watch) > schema.MaxAuthWatch:
		return fmt.Errorf("watch names %d users: it takes at most %d", len(id.Watch), schema.MaxAuthWatch)
	}
	for i, u := range id.Watch {
		if err := u.Check(); err != nil {
			return fmt.Errorf("watch[%d]: %w", i, err)
		}
	}
	return nil
}

// unlisted gives those of uids, each named once, whom neither the client's own uid nor its token lets
// it watch.
func (id *Identity) unlisted(uids []schema.UID) []schema.UID {
	others := make(map[schema.UID]struct{}, len(uids))
	for _, u := range uids {
		others[u] = struct{}{}
	}
	delete(others, id.UID)
	for _, u := range id.Watch { // there may be 10,000 of them
		delete(others, u)
	}
	return slices.DeleteFunc(slices.Clone(uids), func(u schema.UID) bool { _, ok := others[u]; return !ok })
}

// expiresAt is Expires in unix seconds; 0 is never.
func (id *Identity) expiresAt() int64 {
	if id.Expires.IsZero() {
		return 0
	}
	return id.Expires.Unix()
}

// openToOthers reports whether more than this machine may reach an address.
func openToOthers(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return !a.IP.IsLoopback()
	case *net.UnixAddr:
		return false
	}
	return true
}
