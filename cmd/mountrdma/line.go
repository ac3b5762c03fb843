package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// errSilent is why a line was given up.
var errSilent = errors.New("no sign of life")

// A line is a connection whose server must give a sign of life while calls are
// under way: a message, or octets that move. A call itself may take its time,
// as a COMMIT to a slow disk does, so the server is asked to do nothing (NULL)
// before it is given up.
//
//	call ──── quiet ────▶ NULL ──── quiet ────▶ the end
//	       half the limit        half the limit
type line struct {
	client *rpcrdma.Client
	ear    *ear
	nc     *net.TCPConn
	at     string // the server
	limit  time.Duration

	calls   atomic.Int64 // under way
	since   atomic.Int64 // when the first of them began, in nanoseconds of UNIX
	moved   int64        // when octets moved last
	in, out uint64       // octets by then
	probing atomic.Bool
	work    sync.WaitGroup
}

func newLine(client *rpcrdma.Client, d *dialer, at string, limit time.Duration) *line {
	l := &line{client: client, ear: d.ear, nc: d.nc, at: at, limit: limit}
	l.work.Go(l.watch)
	return l
}

// A lineError is the error of a call whose line has ended.
type lineError struct {
	at string
	error
}

// Unwrap returns the cause.
func (e *lineError) Unwrap() error { return e.error }

// Call makes a call (oncrpc.Caller).
func (l *line) Call(ctx context.Context, x *oncrpc.Exchange) error {
	if l.calls.Add(1) == 1 {
		l.since.Store(time.Now().UnixNano())
	}
	defer l.calls.Add(-1)
	err := l.client.Call(ctx, x)
	if errors.Is(err, rdma.ErrClosed) {
		return &lineError{l.at, err}
	}
	return err
}

// close ends the connection.
func (l *line) close() {
	_ = l.client.Close()
	l.work.Wait()
}

func (l *line) watch() {
	tick := time.NewTicker(l.limit / 16)
	defer tick.Stop()
	for {
		select {
		case <-l.client.Done():
			return
		case now := <-tick.C:
			l.look(now)
		}
	}
}

// look checks for signs of life.
func (l *line) look(now time.Time) {
	in, out := l.traffic()
	// The kernel that acknowledges a call is no proof of a server at work.
	if in != l.in || out >= l.out+bulk {
		l.in, l.out, l.moved = in, out, now.UnixNano()
	}
	if l.calls.Load() == 0 {
		return
	}
	quiet := time.Duration(now.UnixNano() - max(l.moved, l.ear.heard.Load(), l.since.Load()))
	switch {
	case quiet >= l.limit:
		l.client.Conn().Abort(fmt.Errorf("%w for %v", errSilent, l.limit))
	case quiet >= l.limit/2 && l.probing.CompareAndSwap(false, true):
		l.work.Go(l.probe)
	}
}

// probe asks for a sign of life, which whoever looks will notice.
func (l *line) probe() {
	defer l.probing.Store(false)
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version}
	if l.client.Call(context.Background(), &x) == nil {
		x.Release()
	}
}

// traffic returns how many octets the peer has sent, and taken.
func (l *line) traffic() (in, out uint64) {
	raw, err := l.nc.SyscallConn()
	if err != nil {
		return 0, 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			in, out = info.Bytes_received, info.Bytes_acked
		}
	})
	return in, out
}
