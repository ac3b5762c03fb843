package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/samehost"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Listener accepts connections as MPA responder. It implements rdma.Listener.
type Listener struct {
	device *Device
	l      net.Listener

	congestionControl string // for connections from other hosts; "": unchanged

	ready    chan *connRequest // requests received and not yet accepted
	done     chan struct{}
	stopOnce sync.Once
	wg       sync.WaitGroup

	mu       sync.Mutex
	starting map[net.Conn]uint64 // connections whose Request is being read, with sequence numbers
	started  uint64              // total number of connections added to starting
	err      error               // why the listener stopped without Close
}

var _ rdma.Listener = (*Listener)(nil)

// NewListener accepts connections from l, and owns l.
func (d *Device) NewListener(l net.Listener) *Listener {
	ln := &Listener{
		device: d, l: l, congestionControl: samehost.SetListenerReno(l),
		ready: make(chan *connRequest), done: make(chan struct{}),
		starting: make(map[net.Conn]uint64),
	}
	ln.wg.Go(ln.run)
	return ln
}

// Addr returns the TCP address.
func (l *Listener) Addr() net.Addr { return l.l.Addr() }

// Accept returns the next peer whose MPA Request has arrived.
func (l *Listener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	select {
	case r := <-l.ready:
		return r, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.done:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err != nil {
			return nil, fmt.Errorf("iwarp: %w: %w", rdma.ErrClosed, l.err)
		}
		return nil, fmt.Errorf("iwarp: listener: %w", rdma.ErrClosed)
	}
}

// Close stops listening and closes the connections that were not accepted.
func (l *Listener) Close() error {
	err := l.shutDown(nil)
	l.wg.Wait()
	return err
}

// shutDown stops the listener, once. cause is the error that Accept then returns, or nil for
// Close.
func (l *Listener) shutDown(cause error) (err error) {
	l.stopOnce.Do(func() {
		l.mu.Lock()
		l.err = cause
		l.mu.Unlock()
		close(l.done)
		err = l.l.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		for nc := range l.starting {
			nc.Close()
		}
	})
	return err
}

// run accepts TCP connections. After a temporary failure, such as too many open
// files, it pauses and tries again.
func (l *Listener) run() {
	slots := make(chan struct{}, maxStarting)
	for {
		select {
		case slots <- struct{}{}:
		case <-l.done:
			return
		case <-time.After(crowdedTime):
			l.closeOldestStartups()
			continue
		}
		nc, err := l.l.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			samehost.RestoreAlgorithm(nc, l.congestionControl)
			l.wg.Go(func() {
				l.handleStartup(nc)
				<-slots
			})
			continue
		case errors.As(err, &temporary) && temporary.Temporary():
			<-slots
		default:
			_ = l.shutDown(err)
			return
		}
		select {
		case <-time.After(acceptPause):
		case <-l.done:
			return
		}
	}
}
