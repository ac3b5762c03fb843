package oncrpc

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// newCancelContext returns a context whose cause is assert.AnError.
func newCancelContext(t *testing.T) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	return ctx, func() { cancel(assert.AnError) }
}

// answerEcho reads a call of echo, checks it, and sends its reply.
func answerEcho(t *testing.T, server net.Conn, proc uint32, data []byte) {
	t.Helper()
	call := readRecord(t, server)
	require.True(t, bytes.Equal(echoCall(xidOf(call), proc, data), call), "the call is whole")
	sendParts(t, server, newRecord(echoReply(xidOf(call), proc, data)))
}

// TestClientCancelWaiting checks that a call that is given up returns at once,
// that its late reply is dropped, and that the connection remains usable.
func TestClientCancelWaiting(t *testing.T) {
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		ctx, cancel := newCancelContext(t)
		large := make([]byte, 70000)
		done := startEcho(ctx, t, c, procEcho, large)
		xid := xidOf(readRecord(t, server))
		cancel()
		assert.ErrorIs(t, <-done, assert.AnError)
		assert.Empty(t, c.calls)

		done = startEcho(t.Context(), t, c, procHead, nil)
		sendParts(t, server, newRecord(echoReply(xid, procEcho, large))) // longer than any call in flight allows
		answerEcho(t, server, procHead, nil)
		assert.NoError(t, <-done)
		assert.ErrorIs(t, callEcho(ctx, t, c, procHead, nil), assert.AnError)
	})
}

// TestClientCancelUnsent checks that a call that is given up in the queue is
// not sent at all.
func TestClientCancelUnsent(t *testing.T) {
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		first := startEcho(t.Context(), t, c, procHead, []byte("first"))
		ctx, cancel := newCancelContext(t)
		second := startEcho(ctx, t, c, procHead, []byte("second"))
		third := startEcho(t.Context(), t, c, procHead, []byte("third"))
		cancel()
		assert.ErrorIs(t, <-second, assert.AnError)
		answerEcho(t, server, procHead, []byte("first"))
		answerEcho(t, server, procHead, []byte("third"))
		assert.NoError(t, <-first)
		assert.NoError(t, <-third)
	})
}

// TestClientCancelInTheMiddle checks that a call that is given up during its
// write leaves from a copy. Its memory is the caller's again, and the stream
// stays whole, at any cut.
func TestClientCancelInTheMiddle(t *testing.T) {
	data := bytes.Repeat([]byte("0123456"), 2000)
	whole := len(newRecord(echoCall(0, procHead, data)))
	for _, cut := range []int{0, 1, 4, 50, 100, 10000, whole - 1} {
		runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
			ctx, cancel := newCancelContext(t)
			x := newEchoExchange(procHead, bytes.Clone(data))
			done := make(chan error, 1)
			go func() { done <- c.Call(ctx, x) }()
			synctest.Wait()
			begun := make([]byte, cut)
			_, err := io.ReadFull(server, begun)
			require.NoError(t, err)
			other := startEcho(t.Context(), t, c, procHead, []byte("other"))
			cancel()
			require.ErrorIs(t, <-done, assert.AnError)
			clear(x.Item) // belongs to the caller again
			clear(x.Args)

			call := readRecord(t, io.MultiReader(bytes.NewReader(begun), server))
			require.True(t, bytes.Equal(echoCall(xidOf(call), procHead, data), call), "cut at %d", cut)
			answerEcho(t, server, procHead, []byte("other"))
			require.NoError(t, <-other)
			sendParts(t, server, newRecord(echoReply(xidOf(call), procHead, data)))
			next := startEcho(t.Context(), t, c, procHead, []byte("next"))
			answerEcho(t, server, procHead, []byte("next"))
			require.NoError(t, <-next)
		})
	}
}

// TestClientCancelInBatch checks that a call that is given up does not affect
// the other calls of its batch.
func TestClientCancelInBatch(t *testing.T) {
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		first := startEcho(t.Context(), t, c, procHead, []byte("first"))
		ctx, cancel := newCancelContext(t)
		second := startEcho(t.Context(), t, c, procHead, []byte("second"))
		third := startEcho(ctx, t, c, procHead, []byte("third"))
		answerEcho(t, server, procHead, []byte("first"))
		require.NoError(t, <-first)
		synctest.Wait()
		require.Len(t, c.out.batch, 2)
		cancel()
		require.ErrorIs(t, <-third, assert.AnError)
		answerEcho(t, server, procHead, []byte("second"))
		answerEcho(t, server, procHead, []byte("third")) // no longer expected
		require.NoError(t, <-second)
	})
}

// TestClientAnsweredEarly checks a server that answers before it has read the
// whole call. The memory of the call belongs to the caller again only after the
// call is written, or given up.
func TestClientAnsweredEarly(t *testing.T) {
	data := make([]byte, 5000)
	for _, giveUp := range []bool{false, true} {
		runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			done := startEcho(ctx, t, c, procHead, data)
			begun := make([]byte, 8)
			_, err := io.ReadFull(server, begun)
			require.NoError(t, err)
			xid := xidOf(begun[markLen:])
			sendParts(t, server, newRecord(echoReply(xid, procHead, data)))
			synctest.Wait()
			require.Empty(t, done)
			if giveUp {
				assert.NoError(t, <-done, "a reply is a reply")
			}
			call := readRecord(t, io.MultiReader(bytes.NewReader(begun), server))
			assert.Equal(t, echoCall(xid, procHead, data), call)
			if !giveUp {
				assert.NoError(t, <-done)
			}
		})
	}
}

// TestClientCancelAnswered checks that a reply in progress to a caller that has given up
// is dropped.
func TestClientCancelAnswered(t *testing.T) {
	runPiped(t, func(t *testing.T, c *TCPClient, _ net.Conn) {
		cl := &clientCall{xid: 1, reply: make(chan outcome, 1)}
		cl.reply <- outcome{record: buf.Default.Get(100)}
		c.abandonCall(cl)
		cl.reply <- outcome{err: assert.AnError}
		c.abandonCall(cl)
	})
}

// TestClientCancelLoopback checks cancellation over a full socket: the server
// reads the original bytes, even if callers reuse their memory.
func TestClientCancelLoopback(t *testing.T) {
	m := new(Mux)
	m.Register(testProg, 2, handlerFunc(func(ctx context.Context, call *Call, r *Reply) error {
		args := call.Args
		if data := args.Item(1 << 20); len(data) > 0 {
			assert.Len(t, data, bytes.Count(data, data[:1]))
		}
		return serveEcho(ctx, call, r)
	}))
	c := startServer(t, &Server{Handler: m}).dialClient(ClientConfig{})
	require.NoError(t, c.nc.(*net.TCPConn).SetWriteBuffer(8<<10))
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
		x := newEchoExchange(procEcho, bytes.Repeat([]byte{byte(i + 1)}, 1<<20))
		if c.Call(ctx, x) == nil {
			x.Release()
		}
		clear(x.Item)
		cancel()
	}
	assert.NoError(t, callEcho(t.Context(), t, c, procEcho, nil), "the stream is whole")
}
