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

// The limits of an oncrpc.Line, which decide when a Client acts.
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
	line(t, ClientConfig{Silence: patience}, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		time.Sleep(time.Hour) // silence without calls is fine
		assert.True(t, l.Up())
		resume := p.lastTheirs().Pause()
		defer resume()
		began, lost := time.Now(), l.Conn()
		done := start(t, t.Context(), l, 5)
		time.Sleep(patience / 2)
		assert.True(t, l.Up(), "the probe is only sent now")
		time.Sleep(patience / 4)
		assert.False(t, l.Up())
		assert.Equal(t, 1, p.connections())
		for range 5 {
			assert.NoError(t, <-done)
		}
		assert.True(t, l.Up())
		assert.Equal(t, 2, p.connections())
		assert.InDelta(t, patience, time.Since(began), float64(patience/looks))
		assert.ErrorIs(t, lost.cause(), oncrpc.ErrSilent)
	})
}

// TestClientSlowCall checks that a call may take long if the server answers
// others: it is sent again over another connection, at growing intervals.
func TestClientSlowCall(t *testing.T) {
	line(t, ClientConfig{Silence: patience, GiveUp: patience}, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		p.e.hold = make(chan struct{})
		began, lost := time.Now(), l.Conn()
		done := start(t, t.Context(), l, 5)
		for time.Since(began) < time.Hour {
			time.Sleep(patience)
			assert.True(t, l.Up())
		}
		assert.Empty(t, done)
		close(p.e.hold)
		for range 5 {
			assert.NoError(t, <-done)
		}
		assert.ErrorIs(t, lost.cause(), oncrpc.ErrOverdue)
		last := began
		for i, at := range p.attempts()[1:] {
			limit := min(overdueTime<<i, maxOverdue)
			assert.InDelta(t, limit, at.Sub(last), float64(2*patience/looks), i)
			last = at
		}
		assert.Less(t, time.Since(last), maxOverdue+patience)
		calls, most := p.executed()
		assert.Equal(t, 6, calls, "a call that is sent again has the XID that it had")
		assert.Equal(t, p.connections(), most)

		time.Sleep(patience) // without calls
		p.e.hold = make(chan struct{})
		began = time.Now()
		done = start(t, t.Context(), l, 1)
		for p.attempts()[len(p.attempts())-1] == last {
			time.Sleep(time.Second)
		}
		assert.InDelta(t, overdueTime, time.Since(began), float64(2*patience/looks), "patience is as at first")
		close(p.e.hold)
		assert.NoError(t, <-done)
	})
}

// TestClientReplyLost checks that a call is answered although a server drops
// what is sent again while it executes the first, and sends the reply over the
// connection that has ended.
func TestClientReplyLost(t *testing.T) {
	line(t, ClientConfig{Silence: patience}, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		time.Sleep(steadyTime)
		p.drops, p.e.hold = true, make(chan struct{})
		done := start(t, t.Context(), l, 1)
		p.lastTheirs().Abort(rdmatest.ErrCut)
		time.Sleep(time.Second)
		require.Equal(t, 2, p.connections())
		close(p.e.hold)
		began, lost := time.Now(), l.Conn()
		select {
		case err := <-done:
			assert.NoError(t, err)
		case <-time.After(time.Hour):
			t.Error("the call is never answered")
		}
		assert.InDelta(t, overdueTime, time.Since(began), float64(2*patience/looks))
		assert.Equal(t, 3, p.connections())
		assert.ErrorIs(t, lost.cause(), oncrpc.ErrOverdue)
	})
}

// TestClientOverdue checks that a call is not overdue if its caller has left,
// and that the patience with a call, which grows, is short again after many
// calls that were answered in time.
func TestClientOverdue(t *testing.T) {
	line(t, ClientConfig{Silence: patience}, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		begin := func(ctx context.Context) (done <-chan error, end func()) {
			hold := make(chan struct{})
			p.e.mu.Lock()
			p.e.hold = hold
			p.e.mu.Unlock()
			return start(t, ctx, l, 1), func() { close(hold) }
		}
		ctx, leave := context.WithCancel(t.Context())
		left, endLeft := begin(ctx)
		defer endLeft()
		leave()
		assert.ErrorIs(t, <-left, context.Canceled)

		done, end := begin(t.Context())
		busy := func() { // always one under way
			for range 40 {
				time.Sleep(time.Minute)
				next, endNext := begin(t.Context())
				end()
				require.NoError(t, <-done)
				done, end = next, endNext
			}
		}
		overdue := func(limit time.Duration) {
			began, n := time.Now(), p.connections()
			for p.connections() == n {
				time.Sleep(time.Second)
			}
			assert.InDelta(t, limit, time.Since(began), float64(2*patience/looks))
		}
		busy()
		require.Equal(t, 1, p.connections())
		overdue(overdueTime)
		busy()
		require.Equal(t, 2, p.connections())
		overdue(2 * overdueTime)
		overdue(2 * overdueTime)
		overdue(4 * overdueTime)
		end()
		require.NoError(t, <-done)
	})
}

// A metered connection moves bytes without a message.
type metered struct {
	rdma.Conn
	d *meteredDialer
}

type meteredDialer struct {
	*place
	mu      sync.Mutex
	in, out uint64
}

func (d *meteredDialer) Dial(ctx context.Context, addr string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	c, err := d.place.Dial(ctx, addr, cfg)
	if err != nil {
		return nil, err
	}
	return &metered{c, d}, nil
}

func (m *metered) Traffic() (in, out uint64) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	return m.d.in, m.d.out
}

// TestClientTraffic checks that bytes that move are a sign of life, and that the
// few bytes that a dead server's kernel acknowledges are none.
func TestClientTraffic(t *testing.T) {
	for _, tt := range []struct {
		name    string
		in, out uint64 // per second
		alive   bool
	}{{"in", 1, 0, true}, {"out", 0, bulk, true}, {"acknowledged", 0, bulk / 20, false}} {
		t.Run(tt.name, func(t *testing.T) {
			line(t, ClientConfig{}, func(t *testing.T, _ *Client, p *place) {
				d := &meteredDialer{place: p}
				l, err := Dial(t.Context(), d, "", ClientConfig{Silence: patience, GiveUp: patience, Log: testLog(t)})
				require.NoError(t, err)
				require.NoError(t, ask(t.Context(), l, 0, 0, 0))
				resume := p.lastTheirs().Pause()
				done := start(t, t.Context(), l, 1)
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
	line(t, cfg, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		time.Sleep(steadyTime)
		p.kill()
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
				c, err := r.Accept(rdma.ConnConfig{Handler: deaf{}, Recvs: 100})
				assert.NoError(t, err)
				accepted = append(accepted, c)
			}
		}()
		began := time.Now()
		err := ask(t.Context(), l, 0, 0, 0)
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
		p.open()
		assert.NoError(t, ask(t.Context(), l, 0, 0, 0))
	})
}

type deaf struct{}

func (deaf) Receive(m rdma.Recv) { m.Buf.Release() }
func (deaf) Closed(error)        {}

// TestClientPoison checks that, if a server ends the connection because of a
// call, the Client does not reconnect hundreds of times a second, and that a
// soft call ends.
func TestClientPoison(t *testing.T) {
	line(t, ClientConfig{GiveUp: 10 * time.Second}, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		cause := errors.New("I dislike that")
		p.e.mu.Lock()
		p.e.onCall = func() { p.lastTheirs().Abort(cause) }
		p.e.mu.Unlock()
		began := time.Now()
		assert.ErrorIs(t, ask(t.Context(), l, 0, 0, 0), oncrpc.ErrUnreachable)
		assert.InDelta(t, 10*time.Second, time.Since(began), float64(time.Second))
		assert.Less(t, p.connections(), 12)
		p.e.mu.Lock()
		p.e.onCall = nil
		p.e.mu.Unlock()
		assert.NoError(t, ask(t.Context(), l, 0, 0, 0))
	})
}

// TestClientSilentAndIdle checks that a silent server is detected even if its
// calls are given up.
func TestClientSilentAndIdle(t *testing.T) {
	line(t, ClientConfig{Silence: patience}, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		resume := p.lastTheirs().Pause()
		defer resume()
		ctx, cancel := context.WithTimeout(t.Context(), 3*patience/4)
		defer cancel()
		assert.ErrorIs(t, ask(ctx, l, 0, 0, 0), context.DeadlineExceeded)
		assert.False(t, l.Up())
		time.Sleep(patience)
		select {
		case <-l.Conn().Done():
		default:
			t.Error("the connection lives")
		}
		assert.Equal(t, 1, p.connections())
		assert.NoError(t, ask(t.Context(), l, 0, 0, 0))
	})
}
