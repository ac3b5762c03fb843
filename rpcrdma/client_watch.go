package rpcrdma

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// An observer looks for signs of life on one connection while calls are under
// way: a message, or octets that move. A call itself may take its time, as a
// COMMIT to a slow disk does, so the server is asked to do nothing before its
// connection is ended.
//
//	call ──── quiet ────▶ NULL ──── quiet ────▶ the end
//	       half the limit        half the limit
//
// Calls pay for it with two atomic words; the observer rests when there is
// none.
type observer struct {
	line  *Client
	conn  *ClientConn
	meter rdma.ByteCounter // nil: the provider has none

	heard   uint64 // messages by the last sign of life
	in, out uint64 // octets by then
	since   time.Time
	quiet   int // looks since then, which a process that stands still does not make

	asking atomic.Bool
	asked  sync.WaitGroup
}

// attend keeps a connection until it has ended, or the line is closed.
func (r *reconnection) attend(life context.Context, c *ClientConn) {
	o := &observer{line: r.Client, conn: c, since: time.Now()}
	o.meter, _ = c.conn.(rdma.ByteCounter)
	defer o.asked.Wait()
	tick := time.NewTicker(r.cfg.Silence / looks)
	defer tick.Stop()
	resting := false
	for {
		select {
		case <-c.Done():
			return
		case <-life.Done():
			r.part(c)
			return
		case <-r.busy:
			if resting {
				resting = false
				o.since, o.quiet = time.Now(), 0
				tick.Reset(r.cfg.Silence / looks)
			}
		case <-r.hints.c:
			o.doubt()
		case <-tick.C:
			switch o.check() {
			case idle:
				resting = true
				tick.Stop()
			case dead:
				r.complain(r.silence())
				c.conn.Abort(r.silence())
			}
		}
	}
}

// part ends the connection of a line that is closed, in good order if the
// server is well.
func (l *Client) part(c *ClientConn) {
	if !l.Up() {
		c.conn.Abort(rdma.ErrClosed)
	}
	_ = c.Close()
}

// What a look may find.
type finding int

const (
	fine finding = iota // or quiet, but not for too long
	idle                // nothing is under way
	dead
)

// check checks for signs of life.
func (o *observer) check() finding {
	l := o.line
	if o.alive() {
		o.since, o.quiet = time.Now(), 0
		l.setSilent(time.Time{})
	} else {
		o.quiet++
	}
	asking := o.asking.Load()
	switch {
	case l.calls.Load() == 0 && !asking:
		return o.rest()
	case o.quiet >= looks:
		l.setSilent(o.since)
		return dead
	case o.quiet > looks/2 && asking:
		l.setSilent(o.since)
	case o.quiet >= looks/2 && !asking:
		o.asking.Store(true)
		o.asked.Go(func() {
			defer o.asking.Store(false)
			_, _ = l.ask(context.Background(), o.conn) // whoever looks will notice
		})
	}
	return fine
}

// alive tells whether there was a sign of life since the last one.
func (o *observer) alive() bool {
	heard := o.conn.received.Load()
	var in, out uint64
	if o.meter != nil {
		in, out = o.meter.Traffic()
	}
	// The kernel that acknowledges a call is no proof of a server at work.
	if heard == o.heard && in == o.in && out < o.out+bulk {
		return false
	}
	o.heard, o.in, o.out = heard, in, out
	return true
}

// rest stops the looking, unless a call has come that saw it go on.
func (o *observer) rest() finding {
	l := o.line
	l.watched.Store(false)
	if l.calls.Load() > 0 && l.watched.CompareAndSwap(false, true) {
		return fine
	}
	return idle
}

func (l *Client) setSilent(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = since
}
