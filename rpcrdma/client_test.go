package rpcrdma

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
)

// A place is an address at which servers start and stop.
type place struct {
	t *testing.T
	e *echo

	extensions *ExtensionConfig // extensions of the servers

	mu     sync.Mutex
	listen *rdmatest.Listener // nil: no server is running
	server *Server
	served chan error
	conns  []*rdmatest.Conn // the client's ends of all connections so far
	theirs []*rdmatest.Conn // the server's ends
	dials  []time.Time
	calls  map[uint32]int // calls that a server has begun to execute, by XID
	rigid  bool           // memory cannot be exchanged under the server
	drops  bool           // the server drops a call that it is executing, as Linux's does
	doing  map[uint32]int // calls that are being executed, by XID
}

var errNobody = errors.New("no client")

// Dial connects to the running server (rdma.Dialer).
func (p *place) Dial(ctx context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	p.mu.Lock()
	l := p.listen
	p.dials = append(p.dials, time.Now())
	p.mu.Unlock()
	if l == nil {
		return nil, errNobody
	}
	c, err := l.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.conns = append(p.conns, c)
	p.mu.Unlock()
	if p.rigid {
		return rigidConn{c}, nil
	}
	return c, nil
}

// A rigidConn has regions that are no rdma.Remappers.
type rigidConn struct{ rdma.Conn }

func (c rigidConn) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	r, err := c.Conn.Register(b, access)
	return struct{ rdma.Region }{r}, err
}

// open starts a server of the echo program.
func (p *place) open() {
	mux := new(oncrpc.Mux)
	mux.Register(echoProg, 1, p.e)
	s := &Server{Log: testLog(p.t), Extensions: p.extensions, Handler: service(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		if req.Msg[23] == 0 { // procedure 0 is the Client's own
			return mux.Serve(ctx, req, rep)
		}
		xid := binary.BigEndian.Uint32(req.Msg)
		p.mu.Lock()
		if p.doing[xid] > 0 && p.drops {
			p.mu.Unlock()
			return false
		}
		if p.drops {
			ctx = context.WithoutCancel(ctx)
		}
		p.calls[xid]++
		p.doing[xid]++
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.doing[xid]--
		}()
		return mux.Serve(ctx, req, rep)
	})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listen, p.server, p.served = rdmatest.Listen(p.t), s, make(chan error, 1)
	go func(l rdma.Listener, served chan error) { served <- s.Serve(l) }(&noted{p.listen, p}, p.served)
}

// A noted is a listener that records its connections.
type noted struct {
	rdma.Listener
	p *place
}

func (n *noted) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	r, err := n.Listener.Accept(ctx)
	return &notedRequest{r, n.p}, err
}

type notedRequest struct {
	rdma.ConnRequest
	p *place
}

func (r *notedRequest) Accept(cfg rdma.ConnConfig) (rdma.Conn, error) {
	c, err := r.ConnRequest.Accept(cfg)
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.theirs = append(r.p.theirs, c.(*rdmatest.Conn))
	return c, err
}

// kill ends the server at once. It cuts the connections first: even with no
// time left, Shutdown might close a connection in good order.
func (p *place) kill() {
	p.mu.Lock()
	s, served := p.server, p.served
	p.listen, p.server = nil, nil
	theirs := p.theirs
	p.mu.Unlock()
	if s != nil {
		for _, c := range theirs {
			c.Abort(rdmatest.ErrCut)
		}
		now, cancel := context.WithCancel(p.t.Context())
		cancel()
		_ = s.Shutdown(now)
		assert.NoError(p.t, <-served)
	}
}

// last returns the client's end of the last connection, and lastTheirs the
// server's.
func (p *place) last() *rdmatest.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[len(p.conns)-1]
}

func (p *place) lastTheirs() *rdmatest.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.theirs[len(p.theirs)-1]
}

// attempts returns the times at which the client dialled.
func (p *place) attempts() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

func (p *place) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// executed returns how many calls were executed, and the highest count of any
// single call.
func (p *place) executed() (calls, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.calls {
		most = max(most, n)
	}
	return len(p.calls), most
}

// line runs f in a bubble with a Client of a server, and checks that no
// resources leak.
func line(t *testing.T, cfg ClientConfig, f func(t *testing.T, l *Client, p *place)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		p := &place{t: t, e: new(echo), calls: make(map[uint32]int), doing: make(map[uint32]int)}
		p.open()
		if cfg.Log == nil {
			cfg.Log = testLog(t)
		}
		l, err := Dial(t.Context(), p, "server:1", cfg)
		require.NoError(t, err)
		f(t, l, p)
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		assert.ErrorIs(t, ask(t.Context(), l, 0, 0, 0), rdma.ErrClosed)
		assert.False(t, l.Up())
		p.kill()
		synctest.Wait()
		assert.Equal(t, before, buf.Default.Out(), "buffers lent")
	})
}

// start makes n calls with data, and returns a channel of their errors.
func start(t *testing.T, ctx context.Context, l *Client, n int) <-chan error {
	t.Helper()
	done := make(chan error, n)
	for range n {
		go func() { done <- ask(ctx, l, 9000, 10, 9000) }()
	}
	synctest.Wait()
	return done
}

// TestClientCuts cuts the connection after each number of frames of either end:
// before a call is sent, afterwards, amid its chunks, before its reply. It
// checks that all calls succeed over the next connections.
func TestClientCuts(t *testing.T) {
	for _, end := range []string{"client", "server"} {
		for frames := range 10 {
			t.Run(end, func(t *testing.T) {
				line(t, ClientConfig{}, func(t *testing.T, l *Client, p *place) {
					require.NoError(t, ask(t.Context(), l, 1, 1, 1))
					time.Sleep(steadyTime)
					c := p.last()
					if end == "server" {
						c = p.lastTheirs()
					}
					c.CutAfter(frames)
					done := start(t, t.Context(), l, 3)
					for range 3 {
						assert.NoError(t, <-done)
					}
					assert.NoError(t, ask(t.Context(), l, 9000, 9000, 9000))
					assert.NoError(t, ask(t.Context(), l, 9000, 9000, 9000))
					assert.Equal(t, 2, p.connections())
					calls, most := p.executed()
					assert.Equal(t, 6, calls, "a call that is sent again has the XID that it had")
					assert.LessOrEqual(t, most, 2)
				})
			})
		}
	}
}

// TestClientOnce checks that lost calls are not sent again if the callers do
// that themselves.
func TestClientOnce(t *testing.T) {
	line(t, ClientConfig{Once: true}, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		p.e.hold = make(chan struct{})
		done := start(t, t.Context(), l, 3)
		p.last().Abort(errors.New("cable cut"))
		for range 3 {
			assert.ErrorIs(t, <-done, rdma.ErrClosed)
		}
		assert.ErrorIs(t, ask(t.Context(), l, 0, 0, 0), rdma.ErrClosed)
		time.Sleep(2 * steadyTime)
		close(p.e.hold)
		assert.Equal(t, 1, p.connections())
		_, most := p.executed()
		assert.Equal(t, 1, most)
	})
}

// TestClientSameXID checks that calls under way when the connection is lost are
// sent again with their XIDs (RFC 5531, Section 4).
func TestClientSameXID(t *testing.T) {
	line(t, ClientConfig{}, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		p.e.hold = make(chan struct{})
		done := start(t, t.Context(), l, 5)
		for range 3 {
			time.Sleep(2 * steadyTime)
			p.last().Abort(errors.New("cable cut"))
			synctest.Wait()
		}
		assert.Len(t, p.attempts(), 4, "at once")
		close(p.e.hold)
		for range 5 {
			assert.NoError(t, <-done)
		}
		calls, most := p.executed()
		assert.Equal(t, 6, calls)
		assert.Equal(t, 4, most)
		assert.True(t, l.Up())
		assert.Same(t, p.last(), l.Conn().Conn())
	})
}

// TestClientHard checks that a hard Client waits for its server and logs that
// once, and that a lost connection is replaced only when a call wants a
// connection.
func TestClientHard(t *testing.T) {
	var log strings.Builder
	plain := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	cfg := ClientConfig{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: plain}))}
	line(t, cfg, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		time.Sleep(steadyTime)
		p.kill()
		time.Sleep(time.Hour)
		assert.Len(t, p.attempts(), 1, "no caller waits")
		assert.False(t, l.Up())
		began := time.Now()
		done := start(t, t.Context(), l, 3)
		time.Sleep(time.Hour)
		assert.Empty(t, done)
		dials := p.attempts()
		assert.Equal(t, began, dials[1], "the first attempt is made at once")
		for i, at := range dials[2:] {
			wait := at.Sub(dials[i+1])
			longest := min(firstPause<<min(i, 10), maxPause)
			assert.True(t, longest/2 <= wait && wait <= longest, "%d: %v", i, wait)
		}
		p.open()
		for range 3 {
			assert.NoError(t, <-done)
		}
		assert.True(t, l.Up())
		synctest.Wait()
		assert.Equal(t, "level=WARN msg=\"server not responding, still trying\" server=server:1 err=\"no client\"\n"+
			"level=INFO msg=\"server OK\" server=server:1\n", log.String())
	})
}

// TestClientSoft checks that a soft Client gives calls up in time, with all known
// causes.
func TestClientSoft(t *testing.T) {
	line(t, ClientConfig{GiveUp: 10 * time.Second}, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		p.e.hold = make(chan struct{})
		done := start(t, t.Context(), l, 3)
		began := time.Now()
		cause := errors.New("cable cut")
		p.mu.Lock()
		p.listen = nil
		p.mu.Unlock()
		p.last().Abort(cause)
		for range 3 {
			err := <-done
			assert.Equal(t, 10*time.Second, time.Since(began))
			for _, want := range []error{oncrpc.ErrUnreachable, cause, errNobody} {
				assert.ErrorIs(t, err, want)
			}
			assert.EqualError(t, err, "oncrpc: server server:1 unreachable for 10s: no client")
		}
		attempts := len(p.attempts())
		time.Sleep(time.Hour)
		assert.Len(t, p.attempts(), attempts, "no caller waits any more")
		began = time.Now()
		assert.ErrorIs(t, ask(t.Context(), l, 0, 0, 0), oncrpc.ErrUnreachable)
		assert.Equal(t, 10*time.Second, time.Since(began), "each call has its own time")
		close(p.e.hold)
	})
}

// TestClientCancelWithoutServer checks that a call ends with its context, even without a
// server.
func TestClientCancelWithoutServer(t *testing.T) {
	line(t, ClientConfig{}, func(t *testing.T, l *Client, p *place) {
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		p.kill()
		cause := errors.New("no patience")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := start(t, ctx, l, 2)
		other := start(t, t.Context(), l, 1)
		time.Sleep(3 * time.Second)
		began := time.Now()
		cancel(cause)
		for range 2 {
			assert.ErrorIs(t, <-done, cause)
		}
		assert.Equal(t, began, time.Now())
		p.open()
		assert.NoError(t, <-other)

		// A peer that takes nothing holds up no call.
		resume := p.lastTheirs().Pause()
		ctx, cancel = context.WithCancelCause(t.Context())
		done = start(t, ctx, l, 200)
		began = time.Now()
		cancel(cause)
		for range 200 {
			assert.ErrorIs(t, <-done, cause)
		}
		assert.Equal(t, began, time.Now())
		resume()
		assert.NoError(t, ask(t.Context(), l, 1, 1, 1))
	})
}

// TestClientCancelOne checks that the reply to a cancelled call finds other
// memory in place of the caller's. With a provider that cannot exchange memory
// it finds none, which costs the connection; the other calls do not notice.
func TestClientCancelOne(t *testing.T) {
	for _, rigid := range []bool{false, true} {
		line(t, ClientConfig{}, func(t *testing.T, l *Client, p *place) {
			p.rigid = rigid
			p.last().Abort(errors.New("for the next"))
			require.NoError(t, ask(t.Context(), l, 0, 0, 0))
			time.Sleep(steadyTime)
			p.e.hold = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			one := start(t, ctx, l, 1)
			others := start(t, t.Context(), l, 5)
			cancel()
			assert.ErrorIs(t, <-one, context.Canceled)
			close(p.e.hold)
			for range 5 {
				assert.NoError(t, <-others)
			}
			synctest.Wait() // the reply of the cancelled call has arrived too
			assert.NoError(t, ask(t.Context(), l, 0, 0, 0))
			want := 2
			if rigid {
				want++
			}
			assert.Equal(t, want, p.connections())
		})
	}
}

// TestClientClose checks that Close ends calls under way and waiting calls.
func TestClientClose(t *testing.T) {
	for _, there := range []bool{true, false} {
		line(t, ClientConfig{}, func(t *testing.T, l *Client, p *place) {
			require.NoError(t, ask(t.Context(), l, 0, 0, 0))
			p.e.hold = make(chan struct{})
			defer close(p.e.hold)
			if !there {
				p.kill()
			}
			done := start(t, t.Context(), l, 5)
			time.Sleep(time.Second)
			require.NoError(t, l.Close())
			for range 5 {
				assert.ErrorIs(t, <-done, rdma.ErrClosed)
			}
		})
	}
}

// TestClientRestarts restarts a server while many calls with data are made. It
// checks that each call is executed at least once, and has the right results.
func TestClientRestarts(t *testing.T) {
	const callers, each = 64, 20
	line(t, ClientConfig{}, func(t *testing.T, l *Client, p *place) {
		p.e.onCall = func() { time.Sleep(rand.N(500 * time.Millisecond)) }
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for j := range each {
					sizes := [...]int{0, 100, 5000, 70001}
					assert.NoError(t, ask(t.Context(), l, sizes[i%4], sizes[j%4], sizes[i/4%4]))
				}
			})
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			all.Wait()
		}()
		restarts := 0
		for over := false; !over; {
			select {
			case <-done:
				over = true
			case <-time.After(rand.N(time.Second)):
				restarts++
				p.kill()
				time.Sleep(rand.N(time.Second))
				p.open()
			}
		}
		calls, _ := p.executed()
		assert.Equal(t, callers*each, calls)
		assert.Greater(t, restarts, 3)
		t.Log(restarts, "restarts")
		time.Sleep(time.Second) // handlers of a killed server may still run
	})
}

// TestClientAnswers checks that calls that were answered are not repeated.
func TestClientAnswers(t *testing.T) {
	line(t, ClientConfig{}, func(t *testing.T, l *Client, p *place) {
		assert.ErrorIs(t, l.Call(t.Context(), &oncrpc.Exchange{Prog: echoProg + 1, Vers: 1}), oncrpc.ErrProgUnavail)
		assert.ErrorIs(t, l.Call(t.Context(), &oncrpc.Exchange{Prog: echoProg, Vers: 1, Proc: 1}), oncrpc.ErrGarbageArgs)
		var remote *RemoteError
		require.ErrorAs(t, ask(t.Context(), l, 2<<20, 0, 0), &remote, "R8166-4.5-7")
		assert.Len(t, p.attempts(), 1)
		_, most := p.executed()
		assert.Equal(t, 1, most)
	})
}

func TestConnectFails(t *testing.T) {
	p := &place{t: t}
	_, err := Dial(t.Context(), p, "", ClientConfig{})
	assert.Equal(t, errNobody, err)
	assert.Len(t, p.attempts(), 1)
	for _, cfg := range []ClientConfig{{Silence: -1}, {GiveUp: -1}, {Conn: ClientConnConfig{Credits: -1}}} {
		_, err := Dial(t.Context(), p, "", cfg)
		assert.Error(t, err)
	}
	assert.Len(t, p.attempts(), 1)
}
