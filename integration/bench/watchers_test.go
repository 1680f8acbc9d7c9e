package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ws "github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// star is the user whom all watch.
const star schema.UID = "star"

// watchers keeps WebSocket clients connected that watch the star. args: the gateway's URL, how many.
func watchers(ctx context.Context, args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range count {
		c, err := ws.New(ws.Config{URL: args[0], Token: token(name("fan", i)), Device: "d"})
		if err != nil {
			return err
		}
		running.Go(func() { c.Run(ctx) })
		if err := errors.Join(c.Ready(ctx), c.Watch(ctx, star)); err != nil {
			return err
		}
	}
	ready(args[0])
	<-ctx.Done()
	return nil
}

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
	spawn(b, "watchers", url, strconv.Itoa(count))

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
