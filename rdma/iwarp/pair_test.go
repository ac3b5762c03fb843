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

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
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

// nextMessage returns the next message's content.
func (h *inboxHandler) nextMessage(t testing.TB) []byte {
	t.Helper()
	m := h.nextRecv(t)
	defer m.Buf.Release()
	return append([]byte{}, m.Buf.B...)
}

func (h *inboxHandler) nextRecv(t testing.TB) rdma.Recv {
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
	case <-time.After(testTimeout):
		require.FailNow(t, "no message came")
	}
	panic("unreachable")
}

// closeError returns the error that the connection ended with.
func (h *inboxHandler) closeError(t testing.TB) error {
	t.Helper()
	select {
	case err := <-h.closed:
		for len(h.recvs) > 0 {
			releaseRecv(<-h.recvs)
		}
		return err
	case <-time.After(testTimeout):
		require.FailNow(t, "the connection did not end")
	}
	panic("unreachable")
}

// completionWaiter is a Completer that a test can wait on.
type completionWaiter chan rdma.Completion

func (w completionWaiter) Complete(c rdma.Completion) { w <- c }

func (w completionWaiter) wait(t testing.TB) rdma.Completion {
	t.Helper()
	select {
	case c := <-w:
		return c
	case <-time.After(testTimeout):
		require.FailNow(t, "no completion came")
	}
	panic("unreachable")
}

// countGoroutines counts all goroutines but the poller's workers. Those end with the
// last connection, and none are counted then.
func countGoroutines() int {
	linkPoller.mu.Lock()
	defer linkPoller.mu.Unlock()
	return runtime.NumGoroutine() - linkPoller.active - len(linkPoller.spares)
}

// checkLeaks checks at a test's end that no buffer, goroutine or STag remains.
func checkLeaks(t testing.TB) {
	t.Helper()
	bufs, routines := buf.Default.Out(), countGoroutines()
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
		if !settle(countGoroutines, routines) {
			stacks := make([]byte, 1<<16)
			assert.Fail(t, "goroutines are left", "%s", stacks[:runtime.Stack(stacks, true)])
		}
		stags := func() (n int) {
			for i := range testDevice.shards {
				s := &testDevice.shards[i]
				s.mu.RLock()
				n += len(s.m)
				s.mu.RUnlock()
			}
			return n
		}
		assert.True(t, settle(stags, 0), "STags are left")
	})
}

// endpoint is one end of a tested connection.
type endpoint struct {
	*Conn
	inbox *inboxHandler
}

// pairOptions are connectPair's parameters.
type pairOptions struct {
	initiator, responder Config
	recvSize, recvs      int
	pipe                 bool // in memory, not TCP
	narrow               bool // with small socket buffers
	immediate            bool // both accept Immediate Data

	handlers [2]rdma.Handler      // for initiator and responder, instead of inboxes
	domains  [2]*ProtectionDomain // likewise, or nil
}

// connectPair connects two endpoints.
func connectPair(t testing.TB, o pairOptions) (initiator, responder endpoint) {
	t.Helper()
	if o.recvs == 0 {
		o.recvs = 64
	}
	var l net.Listener
	var dial func() (net.Conn, error)
	if o.pipe {
		p := newPipeListener()
		l, dial = p, p.dialPipe
	} else {
		tl, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		l, dial = tl, func() (net.Conn, error) { return net.Dial("tcp", tl.Addr().String()) }
	}
	ln := deviceInDomain(o.responder, o.domains[1]).NewListener(l)
	defer ln.Close()
	initiator.inbox, responder.inbox = newInbox(), newInbox()
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
		c, err := req.Accept(cc(1, responder.inbox))
		if assert.NoError(t, err) {
			responder.Conn = c.(*Conn)
		}
	})
	nc, err := dial()
	require.NoError(t, err)
	initiator.Conn, err = deviceInDomain(o.initiator, o.domains[0]).Client(t.Context(), nc, cc(0, initiator.inbox))
	require.NoError(t, err)
	wg.Wait()
	require.NotNil(t, responder.Conn)
	if o.narrow {
		shrinkBuffers(t, initiator.sock, responder.sock)
	}
	t.Cleanup(func() {
		initiator.Close()
		responder.Close()
		initiator.drainInbox()
		responder.drainInbox()
	})
	return initiator, responder
}

// releaseRecv releases a message's buffer. Immediate Data has none.
func releaseRecv(m rdma.Recv) {
	if m.Buf != nil {
		m.Buf.Release()
	}
}

// drainInbox releases messages that the test did not read.
func (e endpoint) drainInbox() {
	for {
		select {
		case m := <-e.inbox.recvs:
			releaseRecv(m)
		default:
			return
		}
	}
}

// sendFirst sends a message from the initiator, after which the responder may send.
func sendFirst(t testing.TB, initiator, responder endpoint) {
	t.Helper()
	require.NoError(t, initiator.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("first")}}))
	require.Equal(t, "first", string(responder.inbox.nextMessage(t)))
}

// transports are the connection kinds that pairs are tested with.
var transports = map[string]pairOptions{
	"tcp":                        {initiator: Config{CRC: mpa.CRCOff}, responder: Config{CRC: mpa.CRCOff}},
	"tcp, crc":                   {},
	"pipe":                       {initiator: Config{CRC: mpa.CRCOff}, responder: Config{CRC: mpa.CRCOff}, pipe: true},
	"markers":                    {initiator: Config{CRC: mpa.CRCOff, Markers: true}, responder: Config{CRC: mpa.CRCOff, Markers: true}},
	"crc and markers to one end": {responder: Config{Markers: true}},
	"protected":                  {initiator: Config{Secure: fakeCipher}, responder: Config{Secure: fakeCipher}},
	"protected by the kernel":    {initiator: Config{Secure: fakeKernelTLS}, responder: Config{Secure: fakeKernelTLS}},
}

// pipeListener accepts net.Pipes' other ends.
type pipeListener struct {
	conns     chan net.Conn
	done      chan struct{}
	closeOnce sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
}

func (l *pipeListener) dialPipe() (net.Conn, error) {
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
	l.closeOnce.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
