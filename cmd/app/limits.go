package app

import (
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/gateway"
)

// LimitFlags bound what clients can make a gateway do. Their defaults are those of package gateway, and
// so is 0.
type LimitFlags struct {
	Connections int           `name:"connections" default:"200000" placeholder:"N" help:"Connections at a time; above it 503. Default 200000."`
	Handshakes  int           `name:"handshakes" default:"8192" placeholder:"N" help:"Connections that are not logged in yet; above it 503. Default 8192."`
	PerAddr     int           `name:"handshakes-per-addr" default:"128" placeholder:"N" help:"Of them from one address other than loopback; above it 429. Behind a proxy on another machine all clients have its address: raise it there. Default 128."`
	FrameBytes  int64         `name:"frame-bytes" default:"65536" placeholder:"N" help:"Size of a client's frame. Default 65536."`
	Rate        int           `name:"rate" default:"200" placeholder:"N" help:"Frames a second from one client. Default 200."`
	Burst       int           `name:"burst" default:"1000" placeholder:"N" help:"Frames at once from one client. Default 1000."`
	Watches     int           `name:"watches" default:"1000" placeholder:"N" help:"Users that one client may follow. Default 1000."`
	Sends       int           `name:"sends" default:"16" placeholder:"N" help:"Sends of one client without an answer. Default 16."`
	QueueFrames int           `name:"queue-frames" default:"512" placeholder:"N" help:"Frames that wait for a client; a push above it is queue_full. Default 512."`
	QueueBytes  int           `name:"queue-bytes" default:"1048576" placeholder:"N" help:"The same in bytes. Default 1048576."`
	SendWait    time.Duration `name:"send-wait" default:"5s" placeholder:"DURATION" help:"How long a backend may take to answer what a client has sent. Default 5s."`
}

func (f *LimitFlags) limits() gateway.Limits {
	return gateway.Limits{
		Sessions: f.Connections, Handshakes: f.Handshakes, HandshakesPerAddr: f.PerAddr, MaxBytes: f.FrameBytes, Rate: f.Rate, Burst: f.Burst,
		Watches: f.Watches, SendsInFlight: f.Sends, SendTimeout: f.SendWait, QueueFrames: f.QueueFrames, QueueBytes: f.QueueBytes,
	}
}

// checkLimits names the first flag that is below zero.
func (f *GatewayFlags) checkLimits() error {
	l := &f.Limits
	for _, one := range []struct {
		flag  string
		value int64
	}{
		{"max-connections", int64(l.Connections)}, {"max-handshakes", int64(l.Handshakes)}, {"max-handshakes-per-addr", int64(l.PerAddr)},
		{"max-frame-bytes", l.FrameBytes}, {"max-rate", int64(l.Rate)}, {"max-burst", int64(l.Burst)}, {"max-watches", int64(l.Watches)},
		{"max-sends", int64(l.Sends)}, {"max-send-wait", int64(l.SendWait)}, {"max-queue-frames", int64(l.QueueFrames)},
		{"max-queue-bytes", int64(l.QueueBytes)}, {"drain-wait", int64(f.Drain.Wait)}, {"drain-rate", int64(f.Drain.Rate)},
		{"jwt-leeway", int64(f.JWT.Leeway)},
	} {
		if one.value < 0 {
			return fmt.Errorf("%w: --%s cannot be below zero", errUsage, one.flag)
		}
	}
	return nil
}
