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

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
)

// A testAddress is an address at which servers start and stop.
type testAddress struct {
	t       *testing.T
	program *echoProgram

	extensions *ExtensionConfig // the servers' extensions

	mu          sync.Mutex
	listen      *rdmatest.Listener // nil: no server is running
	server      *Server
	served      chan error
	conns       []*rdmatest.Conn // the client's ends, for all connections so far
	serverConns []*rdmatest.Conn // the server's ends
	dials       []time.Time
	calls       map[uint32]int // calls that a server has begun to execute, by XID
	rigid       bool           // memory cannot be exchanged under the server
	drops       bool           // the server drops a call that it is executing, as Linux's does
	doing       map[uint32]int // calls that are being executed, by XID
}

var errNoServer = errors.New("no client")

// Dial connects to the running server (rdma.Dialer).
func (p *testAddress) Dial(ctx context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	p.mu.Lock()
	l := p.listen
	p.dials = append(p.dials, time.Now())
	p.mu.Unlock()
	if l == nil {
		return nil, errNoServer
	}
	c, err := l.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.conns = append(p.conns, c)
	p.mu.Unlock()
	if p.rigid {
		return noRemapConn{c}, nil
	}
	return c, nil
}

// A noRemapConn has regions that are no rdma.Remappers.
type noRemapConn struct{ rdma.Conn }

func (c noRemapConn) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	r, err := c.Conn.Register(b, access)
	return struct{ rdma.Region }{r}, err
}

// startServer starts a server with the echo program.
func (p *testAddress) startServer() {
	mux := new(oncrpc.Mux)
	mux.Register(echoProg, 1, p.program)
	s := &Server{Log: testLog(p.t), Extensions: p.extensions, Handler: serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
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
	go func(l rdma.Listener, served chan error) { served <- s.Serve(l) }(&recordingListener{p.listen, p}, p.served)
}

// A recordingListener is a listener that records its connections.
type recordingListener struct {
	rdma.Listener
	p *testAddress
}

func (n *recordingListener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	r, err := n.Listener.Accept(ctx)
	return &recordingRequest{r, n.p}, err
}

type recordingRequest struct {
	rdma.ConnRequest
	p *testAddress
}

func (r *recordingRequest) Accept(cfg rdma.ConnConfig) (rdma.Conn, error) {
	c, err := r.ConnRequest.Accept(cfg)
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.serverConns = append(r.p.serverConns, c.(*rdmatest.Conn))
	return c, err
}

// killServer ends the server at once. It cuts the connections first: even with no
// time left, Shutdown might close a connection in good order.
func (p *testAddress) killServer() {
	p.mu.Lock()
	s, served := p.server, p.served
	p.listen, p.server = nil, nil
	theirs := p.serverConns
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

// lastConn returns the client's end of the last connection, and lastServerConn the
// server's.
func (p *testAddress) lastConn() *rdmatest.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[len(p.conns)-1]
}

func (p *testAddress) lastServerConn() *rdmatest.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serverConns[len(p.serverConns)-1]
}

// dialTimes returns the times at which the client dialled.
func (p *testAddress) dialTimes() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

func (p *testAddress) connCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// executedCalls returns how many calls were executed, and the highest count for any single call.
func (p *testAddress) executedCalls() (calls, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.calls {
		most = max(most, n)
	}
	return len(p.calls), most
}

// withClient runs f in a bubble with a Client and a server, and checks that no
// resources leak.
func withClient(t *testing.T, cfg ClientConfig, f func(t *testing.T, l *Client, p *testAddress)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		p := &testAddress{t: t, program: new(echoProgram), calls: make(map[uint32]int), doing: make(map[uint32]int)}
		p.startServer()
		if cfg.Log == nil {
			cfg.Log = testLog(t)
		}
		l, err := Dial(t.Context(), p, "server:1", cfg)
		require.NoError(t, err)
		f(t, l, p)
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		assert.ErrorIs(t, callEcho(t.Context(), l, 0, 0, 0), rdma.ErrClosed)
		assert.False(t, l.Up())
		p.killServer()
		synctest.Wait()
		assert.Equal(t, before, buf.Default.Out(), "buffers lent")
	})
}

// startCalls makes n calls with data, and returns a channel with their errors.
func startCalls(t *testing.T, ctx context.Context, l *Client, n int) <-chan error {
	t.Helper()
	done := make(chan error, n)
	for range n {
		go func() { done <- callEcho(ctx, l, 9000, 10, 9000) }()
	}
	synctest.Wait()
	return done
}

// TestClientCuts cuts the connection after each number of frames from either
// end: before a call is sent, afterwards, amid its chunks, before its reply. It
// checks that all calls succeed over the next connections.
func TestClientCuts(t *testing.T) {
	for _, end := range []string{"client", "server"} {
		for frames := range 10 {
			t.Run(end, func(t *testing.T) {
				withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
					require.NoError(t, callEcho(t.Context(), l, 1, 1, 1))
					time.Sleep(steadyTime)
					c := p.lastConn()
					if end == "server" {
						c = p.lastServerConn()
					}
					c.CutAfter(frames)
					done := startCalls(t, t.Context(), l, 3)
					for range 3 {
						assert.NoError(t, <-done)
					}
					assert.NoError(t, callEcho(t.Context(), l, 9000, 9000, 9000))
					assert.NoError(t, callEcho(t.Context(), l, 9000, 9000, 9000))
					assert.Equal(t, 2, p.connCount())
					calls, most := p.executedCalls()
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
	withClient(t, ClientConfig{Once: true}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		p.program.hold = make(chan struct{})
		done := startCalls(t, t.Context(), l, 3)
		p.lastConn().Abort(errors.New("cable cut"))
		for range 3 {
			assert.ErrorIs(t, <-done, rdma.ErrClosed)
		}
		assert.ErrorIs(t, callEcho(t.Context(), l, 0, 0, 0), rdma.ErrClosed)
		time.Sleep(2 * steadyTime)
		close(p.program.hold)
		assert.Equal(t, 1, p.connCount())
		_, most := p.executedCalls()
		assert.Equal(t, 1, most)
	})
}

// TestClientSameXID checks that calls in flight when the connection is lost are
// sent again with their XIDs (RFC 5531, Section 4).
func TestClientSameXID(t *testing.T) {
	withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		p.program.hold = make(chan struct{})
		done := startCalls(t, t.Context(), l, 5)
		for range 3 {
			time.Sleep(2 * steadyTime)
			p.lastConn().Abort(errors.New("cable cut"))
			synctest.Wait()
		}
		assert.Len(t, p.dialTimes(), 4, "at once")
		close(p.program.hold)
		for range 5 {
			assert.NoError(t, <-done)
		}
		calls, most := p.executedCalls()
		assert.Equal(t, 6, calls)
		assert.Equal(t, 4, most)
		assert.True(t, l.Up())
		assert.Same(t, p.lastConn(), l.Conn().Conn())
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
	withClient(t, cfg, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		time.Sleep(steadyTime)
		p.killServer()
		time.Sleep(time.Hour)
		assert.Len(t, p.dialTimes(), 1, "no caller waits")
		assert.False(t, l.Up())
		began := time.Now()
		done := startCalls(t, t.Context(), l, 3)
		time.Sleep(time.Hour)
		assert.Empty(t, done)
		dials := p.dialTimes()
		assert.Equal(t, began, dials[1], "the first attempt is made at once")
		for i, at := range dials[2:] {
			wait := at.Sub(dials[i+1])
			longest := min(firstPause<<min(i, 10), maxPause)
			assert.True(t, longest/2 <= wait && wait <= longest, "%d: %v", i, wait)
		}
		p.startServer()
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
	withClient(t, ClientConfig{GiveUp: 10 * time.Second}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		p.program.hold = make(chan struct{})
		done := startCalls(t, t.Context(), l, 3)
		began := time.Now()
		cause := errors.New("cable cut")
		p.mu.Lock()
		p.listen = nil
		p.mu.Unlock()
		p.lastConn().Abort(cause)
		for range 3 {
			err := <-done
			assert.Equal(t, 10*time.Second, time.Since(began))
			for _, want := range []error{oncrpc.ErrUnreachable, cause, errNoServer} {
				assert.ErrorIs(t, err, want)
			}
			assert.EqualError(t, err, "oncrpc: server server:1 unreachable for 10s: no client")
		}
		attempts := len(p.dialTimes())
		time.Sleep(time.Hour)
		assert.Len(t, p.dialTimes(), attempts, "no caller waits any more")
		began = time.Now()
		assert.ErrorIs(t, callEcho(t.Context(), l, 0, 0, 0), oncrpc.ErrUnreachable)
		assert.Equal(t, 10*time.Second, time.Since(began), "each call has its own time")
		close(p.program.hold)
	})
}

// TestClientCancelWithoutServer checks that a call ends with its context, even without a
// server.
func TestClientCancelWithoutServer(t *testing.T) {
	withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		p.killServer()
		cause := errors.New("no patience")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := startCalls(t, ctx, l, 2)
		other := startCalls(t, t.Context(), l, 1)
		time.Sleep(3 * time.Second)
		began := time.Now()
		cancel(cause)
		for range 2 {
			assert.ErrorIs(t, <-done, cause)
		}
		assert.Equal(t, began, time.Now())
		p.startServer()
		assert.NoError(t, <-other)

		// A peer that takes nothing holds up no call.
		resume := p.lastServerConn().Pause()
		ctx, cancel = context.WithCancelCause(t.Context())
		done = startCalls(t, ctx, l, 200)
		began = time.Now()
		cancel(cause)
		for range 200 {
			assert.ErrorIs(t, <-done, cause)
		}
		assert.Equal(t, began, time.Now())
		resume()
		assert.NoError(t, callEcho(t.Context(), l, 1, 1, 1))
	})
}

// TestClientCancelOne checks that the reply to a cancelled call finds other
// memory instead of the caller's. With a provider that cannot exchange memory
// it finds none, which costs the connection; the other calls do not notice.
func TestClientCancelOne(t *testing.T) {
	for _, rigid := range []bool{false, true} {
		withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
			p.rigid = rigid
			p.lastConn().Abort(errors.New("for the next"))
			require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
			time.Sleep(steadyTime)
			p.program.hold = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			one := startCalls(t, ctx, l, 1)
			others := startCalls(t, t.Context(), l, 5)
			cancel()
			assert.ErrorIs(t, <-one, context.Canceled)
			close(p.program.hold)
			for range 5 {
				assert.NoError(t, <-others)
			}
			synctest.Wait() // the cancelled call's reply has arrived too
			assert.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
			want := 2
			if rigid {
				want++
			}
			assert.Equal(t, want, p.connCount())
		})
	}
}

// TestClientClose checks that Close ends calls in flight and waiting calls.
func TestClientClose(t *testing.T) {
	for _, there := range []bool{true, false} {
		withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
			require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
			p.program.hold = make(chan struct{})
			defer close(p.program.hold)
			if !there {
				p.killServer()
			}
			done := startCalls(t, t.Context(), l, 5)
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
	withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
		p.program.onCall = func() { time.Sleep(rand.N(500 * time.Millisecond)) }
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for j := range each {
					sizes := [...]int{0, 100, 5000, 70001}
					assert.NoError(t, callEcho(t.Context(), l, sizes[i%4], sizes[j%4], sizes[i/4%4]))
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
				p.killServer()
				time.Sleep(rand.N(time.Second))
				p.startServer()
			}
		}
		calls, _ := p.executedCalls()
		assert.Equal(t, callers*each, calls)
		assert.Greater(t, restarts, 3)
		t.Log(restarts, "restarts")
		time.Sleep(time.Second) // a killed server's handlers may still run
	})
}

// TestClientAnswers checks that calls that were answered are not repeated.
func TestClientAnswers(t *testing.T) {
	withClient(t, ClientConfig{}, func(t *testing.T, l *Client, p *testAddress) {
		assert.ErrorIs(t, l.Call(t.Context(), &oncrpc.Exchange{Prog: echoProg + 1, Vers: 1}), oncrpc.ErrProgUnavail)
		assert.ErrorIs(t, l.Call(t.Context(), &oncrpc.Exchange{Prog: echoProg, Vers: 1, Proc: 1}), oncrpc.ErrGarbageArgs)
		var remote *RemoteError
		require.ErrorAs(t, callEcho(t.Context(), l, 2<<20, 0, 0), &remote, "R8166-4.5-7")
		assert.Len(t, p.dialTimes(), 1)
		_, most := p.executedCalls()
		assert.Equal(t, 1, most)
	})
}

func TestConnectFails(t *testing.T) {
	p := &testAddress{t: t}
	_, err := Dial(t.Context(), p, "", ClientConfig{})
	assert.Equal(t, errNoServer, err)
	assert.Len(t, p.dialTimes(), 1)
	for _, cfg := range []ClientConfig{{Silence: -1}, {GiveUp: -1}, {Conn: ClientConnConfig{Credits: -1}}} {
		_, err := Dial(t.Context(), p, "", cfg)
		assert.Error(t, err)
	}
	assert.Len(t, p.dialTimes(), 1)
}
