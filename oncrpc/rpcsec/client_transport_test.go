package rpcsec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// TestClientTCP checks a client over TCP, whose calls may be many and long.
func TestClientTCP(t *testing.T) {
	r := newClientRig(t, rpcmsg.AuthKrb5)
	dial := r.server.serveTCP(t)
	line := oncrpc.NewTCPClient(dial(), oncrpc.ClientConfig{})
	defer line.Close()
	for _, flavor := range flavors {
		c := NewClient(line, r.newConfig(flavor))
		for _, n := range []int{0, 1, 5000, 1 << 20} {
			checkEcho(t, c, bytes.Repeat([]byte{1}, n))
		}
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 50 {
					x := oncrpc.Exchange{Prog: testProg, Vers: testVers}
					assert.NoError(t, c.Call(t.Context(), &x))
					x.Release()
				}
			})
		}
		all.Wait()
		c.Close(t.Context())
	}
	assert.Zero(t, r.server.Stats().Contexts)
	assert.Zero(t, r.server.Stats().Dropped)
	assert.EqualValues(t, 3, r.made.Load())
}

// A tapDialer connects to a listener in memory, and keeps the headers of the calls
// that are sent, and the connections.
type tapDialer struct {
	t *testing.T
	l *rdmatest.Listener

	mu      sync.Mutex
	headers []wire.Header
	conns   []*rdmatest.Conn
}

func (d *tapDialer) Dial(ctx context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	c, err := d.l.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c.Delay(time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, c)
	return tapConn{c, d}, nil
}

// A tapConn is a client's end.
type tapConn struct {
	*rdmatest.Conn
	d *tapDialer
}

func (c tapConn) Post(wrs ...rdma.WR) error {
	var h wire.Header
	if msg := wrs[0].Data[0]; wrs[0].Op == rdma.OpSend {
		h.ParseFixed(msg)
		_, err := h.Lists.Parse(msg[wire.FixedLen:])
		assert.NoError(c.d.t, err)
		c.d.mu.Lock()
		c.d.headers = append(c.d.headers, h)
		c.d.mu.Unlock()
	}
	return c.Conn.Post(wrs...)
}

// lastHeader returns the header of the call sent last.
func (d *tapDialer) lastHeader() *wire.Header {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &d.headers[len(d.headers)-1]
}

// closeConn ends the present connection.
func (d *tapDialer) closeConn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[len(d.conns)-1].Abort(errors.New("cut by the test"))
}

// overRDMA runs f in a bubble, with a line to the rig over RDMA.
func overRDMA(t *testing.T, f func(t *testing.T, r *testClient, line *rpcrdma.Client, d *tapDialer)) {
	synctest.Test(t, func(t *testing.T) {
		r := newClientRig(t, rpcmsg.AuthKrb5)
		d := &tapDialer{t: t, l: rdmatest.Listen(t)}
		s := &rpcrdma.Server{Handler: r.server.Server, Log: discardLogger()}
		served := make(chan error, 1)
		go func() { served <- s.Serve(d.l) }()
		line, err := rpcrdma.Dial(t.Context(), d, "server", rpcrdma.ClientConfig{Log: discardLogger()})
		require.NoError(t, err)
		f(t, r, line, d)
		line.Close()
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-served)
	})
}

// TestClientRDMA checks the forms of a client's calls: with integrity or privacy no
// data item is apart, and the Reply chunk has exactly the room of the longest reply.
func TestClientRDMA(t *testing.T) {
	overRDMA(t, func(t *testing.T, r *testClient, line *rpcrdma.Client, d *tapDialer) {
		for i, flavor := range flavors {
			c := NewClient(line, r.newConfig(flavor))
			for _, n := range []int{0, 5, 65536, 262144} {
				checkEcho(t, c, bytes.Repeat([]byte{7}, n))
				h := d.lastHeader()
				if n < 1000 {
					assert.Equal(t, wire.Msg, h.Proc)
					continue
				}
				require.Len(t, h.Lists.Reads, 1)
				if services[i] == serviceNone {
					assert.Equal(t, wire.Msg, h.Proc)
					assert.EqualValues(t, n, h.Lists.Reads[0].Length)
					assert.EqualValues(t, 24+credentialLen(make([]byte, handleLen))+4+opaqueLen(fakeMIC)+4, h.Lists.Reads[0].Position, "R2203-RDMA-2")
					assert.Equal(t, 1, h.Lists.Writes(), "R2203-RDMA-2")
					continue
				}
				assert.Equal(t, wire.NoMsg, h.Proc, "R2203-RDMA-1")
				assert.Zero(t, h.Lists.Reads[0].Position, "R2203-RDMA-1, R2203-RDMA-3")
				assert.Zero(t, h.Lists.Writes(), "R8166-8.2.2.3-1")
				require.True(t, h.Lists.HasReply)
				want := rpcmsg.AcceptedLen + 28 + 12 + n + 8 + opaqueLen(fakeMIC)
				if services[i] == servicePrivacy {
					want = rpcmsg.AcceptedLen + 28 + 12 + n + 4 + fakeBefore + 4 + fakeAfter + 3
				}
				assert.EqualValues(t, want, h.Lists.Reply.Length(), "R2203-RDMA-4, R8166-8.2.2.2-1")
			}
			c.Close(t.Context())
		}
		assert.Zero(t, r.server.Stats().Contexts)
	})
}

// TestClientShared checks that a context that was made over one line is good on
// another, whatever the transport.
func TestClientShared(t *testing.T) {
	overRDMA(t, func(t *testing.T, r *testClient, line *rpcrdma.Client, _ *tapDialer) {
		c := NewClient(&r.line, r.newConfig(rpcmsg.AuthKrb5p))
		checkEcho(t, c, []byte("data"))
		c.next = line
		checkEcho(t, c, []byte("data"))
		assert.EqualValues(t, 1, r.made.Load(), "R2203-5.4-3")
	})
}

// TestClientCut checks that calls go on over connections that are cut: each is
// executed once, all are answered, and none of their numbers is dropped.
func TestClientCut(t *testing.T) {
	overRDMA(t, func(t *testing.T, r *testClient, line *rpcrdma.Client, d *tapDialer) {
		calls := racetest.Of(200, 100)
		executed := make(map[string]int)
		var mu sync.Mutex
		made := func(data []byte) {
			mu.Lock()
			defer mu.Unlock()
			executed[string(data)]++
		}
		r.server.program.made.Store(&made)
		over := make(chan bool)
		go func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					close(over)
					return
				case <-time.After(time.Duration(2+i%3) * 5 * time.Millisecond):
					d.closeConn()
				}
			}
		}()
		var all sync.WaitGroup
		for i, flavor := range flavors {
			c := NewClient(line, r.newConfig(flavor))
			for j := range 8 {
				all.Go(func() {
					for k := range calls {
						x := newExchange(procMake, fmt.Appendf(nil, "%d %d %d", i, j, k))
						if assert.NoError(t, c.Call(t.Context(), x)) {
							x.Release()
						}
					}
				})
			}
		}
		all.Wait()
		over <- true
		<-over
		assert.Len(t, executed, 3*8*calls)
		for what, n := range executed {
			assert.Equal(t, 1, n, "R2203-5.3.3.1-6: %s", what)
		}
		assert.Greater(t, len(d.conns), 3)
		assert.Zero(t, r.server.Stats().Dropped, "R2203-5.3.3.1-5")
	})
}

// TestRefreshCut is TestRefreshKeepsXID over connections: the call that is sent again by
// the next connection finds its context gone.
func TestRefreshCut(t *testing.T) {
	overRDMA(t, func(t *testing.T, r *testClient, line *rpcrdma.Client, d *tapDialer) {
		c := NewClient(line, r.newConfig(rpcmsg.AuthKrb5i))
		executed := 0
		made := func([]byte) {
			executed++
			r.server.contexts.remove(r.server.contexts.acquire(c.current.handle))
			d.closeConn()
		}
		r.server.program.made.Store(&made)
		callMake(t, c)
		assert.Equal(t, 1, executed)
		assert.EqualValues(t, 2, r.made.Load())
		assert.Len(t, d.conns, 2)
	})
}

// TestLongCall checks that a call that stays long at the server does not hold up
// more calls than the window has room for: its number has left.
func TestLongCall(t *testing.T) {
	const calls, small = 20, 4
	check := func(t *testing.T, r *testClient, line oncrpc.Caller) {
		c := NewClient(line, r.newConfig(rpcmsg.AuthKrb5i))
		checkEcho(t, c, nil)
		c.current.slots = make(chan struct{}, small)
		began, gate, done := make(chan bool), make(chan bool), make(chan error)
		made := func([]byte) { began <- true; <-gate }
		r.server.program.made.Store(&made)
		go func() {
			x := newExchange(procMake, []byte("data"))
			err := c.Call(t.Context(), x)
			x.Release()
			done <- err
		}()
		<-began
		for range calls {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			x := newExchange(procHead, nil)
			assert.NoError(t, c.Call(ctx, x))
			x.Release()
			cancel()
		}
		close(gate)
		assert.NoError(t, <-done)
	}
	t.Run("RDMA", func(t *testing.T) {
		overRDMA(t, func(t *testing.T, r *testClient, line *rpcrdma.Client, _ *tapDialer) { check(t, r, line) })
	})
	t.Run("TCP", func(t *testing.T) {
		r := newClientRig(t, rpcmsg.AuthKrb5)
		line := oncrpc.NewTCPClient(r.server.serveTCP(t)(), oncrpc.ClientConfig{})
		defer line.Close()
		check(t, r, line)
	})
}

// A callerFunc is a Caller that is a function.
type callerFunc func(ctx context.Context, x *oncrpc.Exchange) error

func (f callerFunc) Call(ctx context.Context, x *oncrpc.Exchange) error { return f(ctx, x) }

// TestLostLine checks that a call that has found its connection lost, and waits for
// another, does not hold up more calls than the window has room for.
func TestLostLine(t *testing.T) {
	r := newClientRig(t, rpcmsg.AuthKrb5i)
	dial := r.server.serveTCP(t)
	live, dead := oncrpc.NewTCPClient(dial(), oncrpc.ClientConfig{}), oncrpc.NewTCPClient(dial(), oncrpc.ClientConfig{})
	defer live.Close()
	require.NoError(t, dead.Close())
	began, gate, done := make(chan bool), make(chan bool), make(chan error, 1)
	c := NewClient(callerFunc(func(ctx context.Context, x *oncrpc.Exchange) error {
		if x.Proc == procMake {
			assert.ErrorIs(t, dead.Call(ctx, x), oncrpc.ErrClosed)
			began <- true
			<-gate
		}
		return live.Call(ctx, x)
	}), r.newConfig(rpcmsg.AuthKrb5i))
	checkEcho(t, c, nil)
	c.current.slots = make(chan struct{}, 4)
	call := func(proc uint32) {
		x := newExchange(proc, []byte("data"))
		err := c.Call(t.Context(), x)
		x.Release()
		done <- err
	}
	go call(procMake)
	<-began
	for range 20 {
		go call(procHead)
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(20 * time.Second):
			t.Fatal("it waits for the call that has no connection")
		}
	}
	close(gate)
	assert.NoError(t, <-done)
}

// TestClientCosts checks that a call costs no allocation of this package, once its
// memory is there.
func TestClientCosts(t *testing.T) {
	k := &session{Context: steadyContext{}, handle: make([]byte, handleLen), sequenceNumbers: newSequenceNumbers(0, firstBack, window)}
	l := &steadyLine{b: make([]byte, 0, 4096)}
	for _, flavor := range flavors {
		c := NewClient(l, ClientConfig{Flavor: flavor})
		c.current = k
		x := oncrpc.Exchange{Prog: testProg, Vers: testVers, Proc: procEcho, Args: make([]byte, 100)}
		n := testing.AllocsPerRun(500, func() {
			if err := c.Call(t.Context(), &x); err != nil {
				panic(err)
			}
		})
		assert.LessOrEqual(t, n, racetest.PoolLosses(2), flavor)
	}
}

// A steadyContext is a clearContext that has time.
type steadyContext struct{ clearContext }

func (steadyContext) Expires() time.Time { return time.Now().Add(time.Hour) }

// A steadyLine answers each call with its own protected arguments.
type steadyLine struct {
	b []byte
	r xdr.Reader
}

func (l *steadyLine) Call(_ context.Context, x *oncrpc.Exchange) error {
	msg, _, _, err := x.AppendMessage(l.b, 7, "")
	if err != nil {
		return err
	}
	x.Sent()
	l.r = xdr.NewReader(msg)
	h, _ := rpcmsg.ReadCall(&l.r)
	return x.Signer.Open(rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthGSS, Body: h.Verf.Body}, 0, &l.r)
}
