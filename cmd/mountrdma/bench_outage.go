package main

import (
	"sync/atomic"
	"time"
)

// outageInterval is the time between two looks at a connection: shorter than a server's
// restart, and no load for the measurement.
const outageInterval = 10 * time.Millisecond

// watchOutages measures for how long up returns false, until stop is called, which returns
// that time.
func watchOutages(up func() bool) (stop func() time.Duration) {
	var lost atomic.Int64
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(outageInterval)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case now := <-tick.C:
				if !up() {
					lost.Add(int64(now.Sub(last)))
				}
				last = now
			case <-end:
				return
			}
		}
	}()
	return func() time.Duration {
		close(end)
		<-ended
		return time.Duration(lost.Load())
	}
}

// isUp reports whether the command's own session, if it has one, is connected. The other
// connections are to the same server.
func (a *app) isUp(srv server) bool {
	s := a.sessions[srv]
	return s == nil || s.line.Up()
}
