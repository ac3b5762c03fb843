package rpcrdma

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
)

const patience = 16 * time.Second

// The limits in an oncrpc.Line, which decide when a Client acts.
const (
	defaultSilence = 60 * time.Second
	looks          = 16
	bulk           = 4 << 10
	overdueTime    = 2 * time.Minute
	maxOverdue     = 16 * time.Minute
	firstPause     = 100 * time.Millisecond
	maxPause       = 5 * time.Second
	steadyTime     = time.Second
	dialTime       = 15 * time.Second
	hintPause      = 5 * time.Second
	hintTime       = 500 * time.Millisecond
)

// TestClientSilence checks that a server that stops midway loses its connection
// and gets another, over which the calls succeed.
func TestClientSilence(t *testing.T) {
	withClient(t, ClientConfig{Silence: patience}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		time.Sleep(time.Hour) // silence without calls is fine
		assert.True(t, l.Up())
		resume := p.lastServerConn().Pause()
		defer resume()
		began, lost := time.Now(), l.Conn()
		done := startCalls(t, t.Context(), l, 5)
		time.Sleep(patience / 2)
		assert.True(t, l.Up(), "the probe is only sent now")
		time.Sleep(patience / 4)
		assert.False(t, l.Up())
		assert.Equal(t, 1, p.connCount())
		for range 5 {
			assert.NoError(t, <-done)
		}
		assert.True(t, l.Up())
		assert.Equal(t, 2, p.connCount())
		assert.InDelta(t, patience, time.Since(began), float64(patience/looks))
		assert.ErrorIs(t, lost.closeCause(), oncrpc.ErrSilent)
	})
}

// TestClientSlowCall checks that a call may take long if the server answers
// others: it is sent again over another connection, at growing intervals.
func TestClientSlowCall(t *testing.T) {
	withClient(t, ClientConfig{Silence: patience, GiveUp: patience}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		p.program.hold = make(chan struct{})
		began, lost := time.Now(), l.Conn()
		done := startCalls(t, t.Context(), l, 5)
		for time.Since(began) < time.Hour {
			time.Sleep(patience)
			assert.True(t, l.Up())
		}
		assert.Empty(t, done)
		close(p.program.hold)
		for range 5 {
			assert.NoError(t, <-done)
		}
		assert.ErrorIs(t, lost.closeCause(), oncrpc.ErrOverdue)
		last := began
		for i, at := range p.dialTimes()[1:] {
			limit := min(overdueTime<<i, maxOverdue)
			assert.InDelta(t, limit, at.Sub(last), float64(2*patience/looks), i)
			last = at
		}
		assert.Less(t, time.Since(last), maxOverdue+patience)
		calls, most := p.executedCalls()
		assert.Equal(t, 6, calls, "a call that is sent again has the XID that it had")
		assert.Equal(t, p.connCount(), most)

		time.Sleep(patience) // without calls
		p.program.hold = make(chan struct{})
		began = time.Now()
		done = startCalls(t, t.Context(), l, 1)
		for p.dialTimes()[len(p.dialTimes())-1] == last {
			time.Sleep(time.Second)
		}
		assert.InDelta(t, overdueTime, time.Since(began), float64(2*patience/looks), "patience is as at first")
		close(p.program.hold)
		assert.NoError(t, <-done)
	})
}

// TestClientReplyLost checks that a call is answered although a server drops
// what is sent again while it executes the first, and sends the reply over the
// connection that has ended.
func TestClientReplyLost(t *testing.T) {
	withClient(t, ClientConfig{Silence: patience}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		time.Sleep(steadyTime)
		p.drops, p.program.hold = true, make(chan struct{})
		done := startCalls(t, t.Context(), l, 1)
		p.lastServerConn().Abort(rdmatest.ErrCut)
		time.Sleep(time.Second)
		require.Equal(t, 2, p.connCount())
		close(p.program.hold)
		began, lost := time.Now(), l.Conn()
		select {
		case err := <-done:
			assert.NoError(t, err)
		case <-time.After(time.Hour):
			t.Error("the call is never answered")
		}
		assert.InDelta(t, overdueTime, time.Since(began), float64(2*patience/looks))
		assert.Equal(t, 3, p.connCount())
		assert.ErrorIs(t, lost.closeCause(), oncrpc.ErrOverdue)
	})
}

// TestClientOverdue checks that a call is not overdue if its caller has left,
// and that the patience with a call, which grows, is short again after many
// calls that were answered in time.
func TestClientOverdue(t *testing.T) {
	withClient(t, ClientConfig{Silence: patience}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		begin := func(ctx context.Context) (done <-chan error, end func()) {
			hold := make(chan struct{})
			p.program.mu.Lock()
			p.program.hold = hold
			p.program.mu.Unlock()
			return startCalls(t, ctx, l, 1), func() { close(hold) }
		}
		ctx, leave := context.WithCancel(t.Context())
		left, endLeft := begin(ctx)
		defer endLeft()
		leave()
		assert.ErrorIs(t, <-left, context.Canceled)

		done, end := begin(t.Context())
		busy := func() { // always one in flight
			for range 40 {
				time.Sleep(time.Minute)
				next, endNext := begin(t.Context())
				end()
				require.NoError(t, <-done)
				done, end = next, endNext
			}
		}
		overdue := func(limit time.Duration) {
			began, n := time.Now(), p.connCount()
			for p.connCount() == n {
				time.Sleep(time.Second)
			}
			assert.InDelta(t, limit, time.Since(began), float64(2*patience/looks))
		}
		busy()
		require.Equal(t, 1, p.connCount())
		overdue(overdueTime)
		busy()
		require.Equal(t, 2, p.connCount())
		overdue(2 * overdueTime)
		overdue(2 * overdueTime)
		overdue(4 * overdueTime)
		end()
		require.NoError(t, <-done)
	})
}

// A meteredConn connection moves bytes without a message.
type meteredConn struct {
	rdma.Conn
	d *meteredDialer
}

type meteredDialer struct {
	*testAddress
	mu      sync.Mutex
	in, out uint64
}

func (d *meteredDialer) Dial(ctx context.Context, addr string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	c, err := d.testAddress.Dial(ctx, addr, cfg)
	if err != nil {
		return nil, err
	}
	return &meteredConn{c, d}, nil
}

func (m *meteredConn) Traffic() (in, out uint64) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	return m.d.in, m.d.out
}

// TestClientTraffic checks that bytes that move show that the server lives, and
// that the few bytes that a dead server's kernel acknowledges do not.
func TestClientTraffic(t *testing.T) {
	for _, tt := range []struct {
		name    string
		in, out uint64 // per second
		alive   bool
	}{{"in", 1, 0, true}, {"out", 0, bulk, true}, {"acknowledged", 0, bulk / 20, false}} {
		t.Run(tt.name, func(t *testing.T) {
			withClient(t, ClientConfig{}, func(t *testing.T, _ *Client, p *testAddress) {
				d := &meteredDialer{testAddress: p}
				l, err := Dial(t.Context(), d, "", ClientConfig{Silence: patience, GiveUp: patience, Log: testLog(t)})
				require.NoError(t, err)
				require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
				resume := p.lastServerConn().Pause()
				done := startCalls(t, t.Context(), l, 1)
				for range 40 {
					time.Sleep(time.Second)
					d.mu.Lock()
					d.in, d.out = d.in+tt.in, d.out+tt.out
					d.mu.Unlock()
				}
				assert.Equal(t, tt.alive, len(done) == 0)
				resume()
				err = <-done
				if !tt.alive {
					assert.ErrorIs(t, err, oncrpc.ErrUnreachable)
					assert.ErrorIs(t, err, oncrpc.ErrSilent)
					err = nil
				}
				assert.NoError(t, err)
				require.NoError(t, l.Close())
			})
		})
	}
}

// TestClientMuteServer checks that a server that takes connections and answers
// nothing counts as absent: the calls go on waiting, and are given up.
func TestClientMuteServer(t *testing.T) {
	cfg := ClientConfig{Silence: patience, GiveUp: 3 * patience}
	withClient(t, cfg, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		time.Sleep(steadyTime)
		p.killServer()
		mute := rdmatest.Listen(t)
		p.mu.Lock()
		p.listen = mute
		p.mu.Unlock()
		stop := make(chan struct{})
		var accepted []rdma.Conn
		go func() {
			defer close(stop)
			for {
				r, err := mute.Accept(t.Context())
				if err != nil {
					return
				}
				c, err := r.Accept(rdma.ConnConfig{Handler: discardingHandler{}, Recvs: 100})
				assert.NoError(t, err)
				accepted = append(accepted, c)
			}
		}()
		began := time.Now()
		err := callEcho(t.Context(), l, 0, 0, 0)
		assert.ErrorIs(t, err, oncrpc.ErrUnreachable)
		assert.ErrorIs(t, err, oncrpc.ErrSilent)
		assert.ErrorIs(t, err, rdmatest.ErrCut, "why it was lost")
		assert.Equal(t, 3*patience, time.Since(began))
		assert.False(t, l.Up())
		synctest.Wait()
		mute.Close()
		<-stop
		assert.Len(t, accepted, 3)
		for _, c := range accepted {
			c.Close()
		}
		p.startServer()
		assert.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
	})
}

type discardingHandler struct{}

func (discardingHandler) Receive(m rdma.Recv) { m.Buf.Release() }
func (discardingHandler) Closed(error)        {}

// TestClientPoison checks that if a server aborts the connection because of a call,
// the Client does not reconnect hundreds of times a second, and that the call fails
// after GiveUp.
func TestClientPoison(t *testing.T) {
	withClient(t, ClientConfig{GiveUp: 10 * time.Second}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		cause := errors.New("call rejected")
		p.program.mu.Lock()
		p.program.onCall = func() { p.lastServerConn().Abort(cause) }
		p.program.mu.Unlock()
		began := time.Now()
		assert.ErrorIs(t, callEcho(t.Context(), l, 0, 0, 0), oncrpc.ErrUnreachable)
		assert.InDelta(t, 10*time.Second, time.Since(began), float64(time.Second))
		assert.Less(t, p.connCount(), 12)
		p.program.mu.Lock()
		p.program.onCall = nil
		p.program.mu.Unlock()
		assert.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
	})
}

// TestClientSilentAndIdle checks that a silent server is detected even if its
// calls are abandoned.
func TestClientSilentAndIdle(t *testing.T) {
	withClient(t, ClientConfig{Silence: patience}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		resume := p.lastServerConn().Pause()
		defer resume()
		ctx, cancel := context.WithTimeout(t.Context(), 3*patience/4)
		defer cancel()
		assert.ErrorIs(t, callEcho(ctx, l, 0, 0, 0), context.DeadlineExceeded)
		assert.False(t, l.Up())
		time.Sleep(patience)
		select {
		case <-l.Conn().Done():
		default:
			t.Error("the connection is still open")
		}
		assert.Equal(t, 1, p.connCount())
		assert.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
	})
}
