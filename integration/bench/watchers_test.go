package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ws "github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// star is the user whom all watch.
const star schema.UID = "star"

// watched measures what a change of one user takes of a gateway on which many watch him.
func (s *stage) watched(b *testing.B, g *child, url string) {
	const count = 1000
	devices := make(chan int, 64)
	eye, err := ws.New(ws.Config{URL: url, Token: token("eye"), Device: "d", OnPresence: func(users []schema.WatchedUser) { devices <- len(users[0].Devices) }})
	require.NoError(b, err)
	background(b, eye.Run)
	stays, err := ws.New(ws.Config{URL: url, Token: token(star), Device: "stays"})
	require.NoError(b, err)
	background(b, stays.Run)
	require.NoError(b, errors.Join(stays.Ready(b.Context()), eye.Ready(b.Context()), eye.Watch(b.Context(), star)))
	require.NoError(b, told(devices, 1))
	spawn(b, "clients", url, strconv.Itoa(count), string(star))

	const guests = 5
	var used []time.Duration
	for b.Loop() {
		for range rounds {
			before := cpuOf(b, g.pid)
			for range guests {
				require.NoError(b, visit(url, devices))
			}
			used = append(used, (cpuOf(b, g.pid)-before)/(2*guests))
		}
	}
	change := median(used)
	results.add(row{name: fmt.Sprintf("a change of one user, %d watch", count), cost: fmt.Sprintf("%.2f ms of the gateway, with the login or the end that it is", micros(change)/1e3)})
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(change)/1e3, "ms-cpu/change")
}

// visit has a second device of the star come and go; each is told to all who watch.
func visit(url string, devices <-chan int) error {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	guest, err := ws.New(ws.Config{URL: url, Token: token(star), Device: "guest"})
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = guest.Run(ctx) // ends by leave
	}()
	err = told(devices, 2)
	leave()
	<-gone
	return errors.Join(err, told(devices, 1))
}

// told waits until a watcher has heard of so many devices.
func told(devices <-chan int, want int) error {
	late := time.After(10 * time.Second)
	for {
		select {
		case n := <-devices:
			if n == want {
				return nil
			}
		case <-late:
			return fmt.Errorf("a watcher has not heard of %d devices in 10 s", want)
		}
	}
}
