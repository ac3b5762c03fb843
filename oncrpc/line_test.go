package oncrpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// Package rpcrdma tests the rest of a Line: servers that are slow, silent or away.

// A fakeServer is an address at which a server of echo starts and stops.
type fakeServer struct {
	mu       sync.Mutex
	away     bool
	mute     bool          // the server answers nothing
	hold     chan struct{} // if not nil, calls are answered once it is closed
	cutAfter int           // bytes to the client after which the next connection is cut; 0: none
	conns    []net.Conn    // the server's ends of all connections so far
	executed map[uint32]int
	serving  sync.WaitGroup
}

var errNobody = errors.New("nobody listens")

// dialLine makes a connection of a Line (LineConfig.Dial).
func (p *fakeServer) dialLine(_ context.Context, l *Line) (LineConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return nil, errNobody
	}
	near, far := net.Pipe()
	w := &cutWriter{Conn: far, left: p.cutAfter}
	p.cutAfter = 0
	p.conns = append(p.conns, far)
	p.serving.Go(func() { p.serveConn(w) })
	return tcpLineConn{newTCPClient(near, ClientConfig{Machine: "rig"}, l.XIDs())}, nil
}

// A cutWriter closes its connection after left bytes, if that is not 0.
type cutWriter struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (w *cutWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 {
		return w.Conn.Write(b)
	}
	n := min(len(b), w.left)
	_, _ = w.Conn.Write(b[:n])
	if w.left -= n; w.left == 0 {
		w.Close()
		return n, net.ErrClosed
	}
	return n, nil
}

// serveConn answers a connection's calls, all at the same time.
func (p *fakeServer) serveConn(w *cutWriter) {
	var calls sync.WaitGroup
	defer calls.Wait()
	defer w.Close()
	in := recordReader{br: bufio.NewReader(w), max: 1 << 20, reserve: func(int) error { return nil }}
	for {
		rec, err := in.readRecord()
		if err != nil {
			return
		}
		call := bytes.Clone(rec.B)
		rec.Release()
		calls.Go(func() {
			if reply := p.executeCall(call); reply != nil {
				_, _ = w.Write(newRecord(reply))
			}
		})
	}
}

// executeCall executes a call.
func (p *fakeServer) executeCall(call []byte) []byte {
	xid, r := xidOf(call), xdr.NewReader(call[5*4:])
	proc := r.Uint32()
	r.Fixed(4 * 4)
	p.mu.Lock()
	hold, mute := p.hold, p.mute
	if proc != 0 {
		p.executed[xid]++
	}
	p.mu.Unlock()
	switch {
	case mute:
		return nil
	case proc == 0:
		return rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success)
	case hold != nil:
		<-hold
	}
	return echoReply(xid, proc, r.Opaque(1<<20))
}

// changeState changes the server.
func (p *fakeServer) changeState(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// cutLast cuts the last connection.
func (p *fakeServer) cutLast() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[len(p.conns)-1].Close()
}

// callCounts returns how many connections there were, how many calls were executed, and the
// highest count of a single call.
func (p *fakeServer) callCounts() (conns, calls, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.executed {
		most = max(most, n)
	}
	return len(p.conns), len(p.executed), most
}

// runWithLine runs f in virtual time with a Line to a place, and checks that nothing is left.
func runWithLine(t *testing.T, cfg LineConfig, f func(t *testing.T, l *Line, p *fakeServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &fakeServer{executed: make(map[uint32]int)}
		cfg.Dial, cfg.Server, cfg.Closed, cfg.Log = p.dialLine, "server:1", ErrClosed, discardLogger()
		l, err := NewLine(t.Context(), cfg)
		require.NoError(t, err)
		f(t, l, p)
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		assert.ErrorIs(t, callEcho(t.Context(), t, l, procHead, nil), ErrClosed)
		assert.False(t, l.Up())
		p.serving.Wait()
		assert.Zero(t, buf.Default.Out(), "buffers")
		assert.Empty(t, l.xids.kept)
		assert.Zero(t, l.waiters)
		assert.Zero(t, l.inFlight.Load())
	})
}

// TestLineCuts cuts a connection after each byte of the replies to three calls in flight,
// and checks that all calls are answered, under their first XIDs.
func TestLineCuts(t *testing.T) {
	data := []byte("the data")
	for n := range 3 * len(newRecord(echoReply(0, procEcho, data))) {
		runWithLine(t, LineConfig{}, func(t *testing.T, l *Line, p *fakeServer) {
			require.NoError(t, callEcho(t.Context(), t, l, procHead, nil))
			time.Sleep(steadyTime)
			p.changeState(func() { p.cutAfter = len(newRecord(rpcmsg.AppendAccepted(nil, 0, rpcmsg.Success))) + n + 1 })
			p.cutLast()
			var done []<-chan error
			for range 3 {
				done = append(done, startEcho(t.Context(), t, l, procEcho, data))
			}
			for _, end := range done {
				assert.NoError(t, <-end)
			}
			require.NoError(t, callEcho(t.Context(), t, l, procHead, nil))
			conns, calls, most := p.callCounts()
			assert.Equal(t, 3, conns)
			assert.Equal(t, 5, calls, "a call that is sent again has the XID that it had")
			assert.LessOrEqual(t, most, 2)
		})
	}
}

// TestLineXIDsInUse checks that no XID is in use twice, even if a call waits
// while 2^32 others are made.
func TestLineXIDsInUse(t *testing.T) {
	runWithLine(t, LineConfig{}, func(t *testing.T, l *Line, p *fakeServer) {
		l.xids.last.Store(1<<32 - 3)
		require.NoError(t, callEcho(t.Context(), t, l, procHead, nil)) // 0xfffffffe
		hold := make(chan struct{})
		p.changeState(func() { p.hold = hold })
		one := startEcho(t.Context(), t, l, procHead, nil) // 0xffffffff
		l.xids.last.Store(1<<32 - 2)
		two := startEcho(t.Context(), t, l, procHead, nil) // not 0xffffffff again, and not 0
		p.changeState(func() { p.away = true })
		p.cutLast()
		synctest.Wait()
		l.xids.last.Store(1<<32 - 2)
		close(hold)
		three := startEcho(t.Context(), t, l, procHead, nil)
		p.changeState(func() { p.away = false })
		for _, done := range []<-chan error{one, two, three} {
			assert.NoError(t, <-done)
		}
		for _, xid := range []uint32{1<<32 - 2, 1<<32 - 1, 1, 3} { // 2 was used by the NULL call
			assert.Contains(t, p.executed, xid)
		}
		assert.Len(t, p.executed, 4)
	})
}

// TestLineWaitersOverlap loses a connection before all waiters have seen it,
// and checks that the waiters for the next connection are not forgotten.
func TestLineWaitersOverlap(t *testing.T) {
	runWithLine(t, LineConfig{}, func(t *testing.T, l *Line, p *fakeServer) {
		require.NoError(t, callEcho(t.Context(), t, l, procHead, nil))
		l.addWaiter() // a slow waiter
		p.cutLast()
		assert.NoError(t, callEcho(t.Context(), t, l, procHead, nil))
		p.cutLast()
		assert.NoError(t, callEcho(t.Context(), t, l, procHead, nil))
		l.removeWaiter()
	})
}

// TestLineRests checks that a livenessChecker stops its checks without calls: a Line at rest
// notices only messages on its connection.
func TestLineRests(t *testing.T) {
	runWithLine(t, LineConfig{Silence: time.Minute}, func(t *testing.T, l *Line, _ *fakeServer) {
		for range 3 {
			require.NoError(t, callEcho(t.Context(), t, l, procHead, nil))
			assert.True(t, l.watched.Load())
			time.Sleep(time.Minute)
			assert.False(t, l.watched.Load())
		}
	})
}

// TestLineSilence checks that a TCP connection to a server that has fallen silent is
// replaced, and that one reply that never comes is asked for again.
func TestLineSilence(t *testing.T) {
	runWithLine(t, LineConfig{Silence: time.Minute}, func(t *testing.T, l *Line, p *fakeServer) {
		require.NoError(t, callEcho(t.Context(), t, l, procHead, nil))
		time.Sleep(time.Hour)
		p.changeState(func() { p.mute = true })
		began, lost := time.Now(), l.Conn()
		done := startEcho(t.Context(), t, l, procHead, nil)
		time.Sleep(50 * time.Second)
		assert.False(t, l.Up())
		p.changeState(func() { p.mute = false })
		require.NoError(t, <-done)
		assert.InDelta(t, time.Minute, time.Since(began), float64(time.Minute/checksPerSilence))
		assert.ErrorIs(t, lost.Cause(), ErrSilent)

		hold := make(chan struct{})
		p.changeState(func() { p.hold = hold })
		began, lost = time.Now(), l.Conn()
		done = startEcho(t.Context(), t, l, procHead, nil)
		p.changeState(func() { p.hold = nil })
		require.NoError(t, <-done)
		assert.InDelta(t, overdueTime, time.Since(began), float64(2*time.Minute/checksPerSilence))
		assert.ErrorIs(t, lost.Cause(), ErrOverdue)
		close(hold)
		conns, calls, most := p.callCounts()
		assert.Equal(t, []int{3, 3, 2}, []int{conns, calls, most})
	})
}

// TestLineGivesUp checks the error of a call whose server stays away.
func TestLineGivesUp(t *testing.T) {
	runWithLine(t, LineConfig{GiveUp: 10 * time.Second}, func(t *testing.T, l *Line, p *fakeServer) {
		p.changeState(func() { p.away = true })
		p.cutLast()
		began := time.Now()
		err := callEcho(t.Context(), t, l, procHead, nil)
		assert.Equal(t, 10*time.Second, time.Since(began))
		assert.ErrorIs(t, err, ErrUnreachable)
		assert.ErrorIs(t, err, errNobody)
		assert.EqualError(t, err, "oncrpc: server server:1 unreachable for 10s: nobody listens")
	})
}

// TestLineDoubt checks when a Line doubts its server: every half second while a call is in
// flight and the server sends nothing.
func TestLineDoubt(t *testing.T) {
	var doubts atomic.Int64
	doubt := func(ctx context.Context) {
		_, limited := ctx.Deadline()
		assert.True(t, limited)
		doubts.Add(1)
	}
	runWithLine(t, LineConfig{Doubt: doubt}, func(t *testing.T, l *Line, p *fakeServer) {
		require.NoError(t, callEcho(t.Context(), t, l, procHead, nil))
		time.Sleep(time.Hour)
		assert.Zero(t, doubts.Load(), "at rest")

		hold := make(chan struct{})
		p.changeState(func() { p.hold = hold })
		done := startEcho(t.Context(), t, l, procHead, nil)
		p.changeState(func() { p.hold = nil })
		for range 100 { // a slow call among others
			time.Sleep(doubtInterval / 2)
			require.NoError(t, callEcho(t.Context(), t, l, procHead, nil))
		}
		assert.Zero(t, doubts.Load(), "replies arrive")

		time.Sleep(10*time.Second + doubtInterval/2)
		assert.InDelta(t, 10*time.Second/doubtInterval, doubts.Load(), 1)
		close(hold)
		require.NoError(t, <-done)
	})
}
