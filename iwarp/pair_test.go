package iwarp

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// inboxHandler is an upper layer that stores all messages and the final error.
type inboxHandler struct {
	recvs  chan rdma.Recv
	closed chan error
}

func newInbox() *inboxHandler {
	return &inboxHandler{recvs: make(chan rdma.Recv, 4096), closed: make(chan error, 1)}
}

func (h *inboxHandler) Receive(m rdma.Recv) { h.recvs <- m }
func (h *inboxHandler) Closed(err error)    { h.closed <- err }

// next returns the next message's content.
func (h *inboxHandler) next(t testing.TB) []byte {
	t.Helper()
	m := h.recv(t)
	defer m.Buf.Release()
	return append([]byte{}, m.Buf.B...)
}

func (h *inboxHandler) recv(t testing.TB) rdma.Recv {
	t.Helper()
	select {
	case m := <-h.recvs:
		return m
	case err := <-h.closed:
		h.closed <- err
		if len(h.recvs) > 0 {
			return <-h.recvs
		}
		require.FailNow(t, "closed instead of a message", "%v", err)
	case <-time.After(patience):
		require.FailNow(t, "no message came")
	}
	panic("unreachable")
}

// end returns the error that the connection ended with.
func (h *inboxHandler) end(t testing.TB) error {
	t.Helper()
	select {
	case err := <-h.closed:
		for len(h.recvs) > 0 {
			release(<-h.recvs)
		}
		return err
	case <-time.After(patience):
		require.FailNow(t, "the connection did not end")
	}
	panic("unreachable")
}

// waiter is a Completer that a test can wait on.
type waiter chan rdma.Completion

func (w waiter) Complete(c rdma.Completion) { w <- c }

func (w waiter) wait(t testing.TB) rdma.Completion {
	t.Helper()
	select {
	case c := <-w:
		return c
	case <-time.After(patience):
		require.FailNow(t, "no completion came")
	}
	panic("unreachable")
}

// goroutines counts all goroutines but the poller's workers. Those end with the
// last connection, and none are counted then.
func goroutines() int {
	idle.mu.Lock()
	defer idle.mu.Unlock()
	return runtime.NumGoroutine() - idle.active - len(idle.spares)
}

// world checks at the end of a test that no buffer, goroutine or STag remains.
func world(t testing.TB) {
	t.Helper()
	bufs, routines := buf.Default.Out(), goroutines()
	t.Cleanup(func() {
		settle := func(now func() int, before int) bool {
			for range 200 {
				if now() <= before {
					return true
				}
				time.Sleep(5 * time.Millisecond)
			}
			return false
		}
		assert.True(t, settle(buf.Default.Out, bufs), "buffers were not released")
		if !settle(goroutines, routines) {
			stacks := make([]byte, 1<<16)
			assert.Fail(t, "goroutines are left", "%s", stacks[:runtime.Stack(stacks, true)])
		}
		stags := func() (n int) {
			for i := range lab.shard {
				s := &lab.shard[i]
				s.mu.RLock()
				n += len(s.m)
				s.mu.RUnlock()
			}
			return n
		}
		assert.True(t, settle(stags, 0), "STags are left")
	})
}

// endpoint is one end of a connection under test.
type endpoint struct {
	*Conn
	in *inboxHandler
}

// options are the parameters of pair.
type options struct {
	initiator, responder Config
	recvSize, recvs      int
	pipe                 bool // in memory, not TCP
	narrow               bool // with small socket buffers
	immediate            bool // both accept Immediate Data

	handlers [2]rdma.Handler      // of initiator and responder, instead of inboxes
	domains  [2]*ProtectionDomain // likewise, or nil
}

// pair connects two endpoints.
func pair(t testing.TB, o options) (initiator, responder endpoint) {
	t.Helper()
	if o.recvs == 0 {
		o.recvs = 64
	}
	var l net.Listener
	var dial func() (net.Conn, error)
	if o.pipe {
		p := newPipeListener()
		l, dial = p, p.dial
	} else {
		tl, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		l, dial = tl, func() (net.Conn, error) { return net.Dial("tcp", tl.Addr().String()) }
	}
	ln := labOf(o.responder, o.domains[1]).NewListener(l)
	defer ln.Close()
	initiator.in, responder.in = newInbox(), newInbox()
	cc := func(i int, in *inboxHandler) rdma.ConnConfig {
		cc := rdma.ConnConfig{Handler: in, RecvSize: o.recvSize, Recvs: o.recvs, Immediate: o.immediate}
		if o.handlers[i] != nil {
			cc.Handler = o.handlers[i]
		}
		return cc
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		req, err := ln.Accept(context.Background())
		if !assert.NoError(t, err) {
			return
		}
		c, err := req.Accept(cc(1, responder.in))
		if assert.NoError(t, err) {
			responder.Conn = c.(*Conn)
		}
	})
	nc, err := dial()
	require.NoError(t, err)
	initiator.Conn, err = labOf(o.initiator, o.domains[0]).Client(t.Context(), nc, cc(0, initiator.in))
	require.NoError(t, err)
	wg.Wait()
	require.NotNil(t, responder.Conn)
	if o.narrow {
		narrow(t, initiator.sock, responder.sock)
	}
	t.Cleanup(func() {
		initiator.Close()
		responder.Close()
		initiator.drain()
		responder.drain()
	})
	return initiator, responder
}

// release releases a message's buffer. Immediate Data has none.
func release(m rdma.Recv) {
	if m.Buf != nil {
		m.Buf.Release()
	}
}

// drain releases messages that the test did not read.
func (e endpoint) drain() {
	for {
		select {
		case m := <-e.in.recvs:
			release(m)
		default:
			return
		}
	}
}

// open sends a message from the initiator, after which the responder may send.
func open(t testing.TB, initiator, responder endpoint) {
	t.Helper()
	require.NoError(t, initiator.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("first")}}))
	require.Equal(t, "first", string(responder.in.next(t)))
}

// transports are the kinds of connection in which pairs are tried.
var transports = map[string]options{
	"tcp":                        {initiator: Config{CRC: mpa.CRCOff}, responder: Config{CRC: mpa.CRCOff}},
	"tcp, crc":                   {},
	"pipe":                       {initiator: Config{CRC: mpa.CRCOff}, responder: Config{CRC: mpa.CRCOff}, pipe: true},
	"markers":                    {initiator: Config{CRC: mpa.CRCOff, Markers: true}, responder: Config{CRC: mpa.CRCOff, Markers: true}},
	"crc and markers to one end": {responder: Config{Markers: true}},
	"protected":                  {initiator: Config{Secure: scrambled}, responder: Config{Secure: scrambled}},
	"protected by the kernel":    {initiator: Config{Secure: byKernel}, responder: Config{Secure: byKernel}},
}

// pipeListener accepts the other ends of net.Pipes.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
}

func (l *pipeListener) dial() (net.Conn, error) {
	a, b := net.Pipe()
	l.conns <- b
	return a, nil
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
