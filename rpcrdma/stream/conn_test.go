package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// connectAndCall returns a stream whose first call has been read and answered.
func (r *testListener) connectAndCall() (*requester, net.Conn) {
	r.t.Helper()
	q := r.dialLinux()
	q.sendCall(readListMsg(), callTo(testXID, procNull))
	c := r.acceptConn()
	readRecord(r.t, c)
	writeAll(r.t, c, recordFragments(successReply(testXID)))
	assert.Equal(r.t, wire.Msg, q.onlyAnswer().Proc)
	return q, c
}

// runLater runs f and returns a channel for its error.
func runLater(f func() (int, error)) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := f()
		done <- err
	}()
	synctest.Wait()
	return done
}

func TestAddresses(t *testing.T) {
	withListener(t, nil, func(t *testing.T, r *testListener) {
		q, c := r.connectAndCall()
		assert.Equal(t, r.listen.Addr(), r.l.Addr())
		assert.Equal(t, q.Conn.RemoteAddr(), c.LocalAddr())
		assert.Equal(t, q.Conn.LocalAddr(), c.RemoteAddr())
		_, err := c.Write([]byte{0x80, 0, 0, 0})
		assert.ErrorContains(t, err, "write rdma "+c.LocalAddr().String()+"->"+c.RemoteAddr().String())
	})
}

// TestDeadlines checks that deadlines end present and later waits, and
// can be withdrawn.
func TestDeadlines(t *testing.T) {
	isTimeout := func(t *testing.T, err error) {
		t.Helper()
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		if assert.ErrorAs(t, err, &timeout) {
			assert.True(t, timeout.Timeout())
		}
	}
	withListener(t, nil, func(t *testing.T, r *testListener) {
		q, c := r.connectAndCall()
		p := make([]byte, 100)
		reading := runLater(func() (int, error) { return c.Read(p) })
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		start := time.Now()
		isTimeout(t, <-reading)
		assert.Equal(t, time.Second, time.Since(start))

		q.sendCall(readListMsg(), callTo(testXID, procNull))
		synctest.Wait()
		_, err := c.Read(p)
		isTimeout(t, err)
		writeAll(t, c, nil) // not the writer's
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		assert.Len(t, readRecord(t, c), 40, "no loss")

		// A deadline is postponed before it passes.
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Second)))
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Hour)))
		reading = runLater(func() (int, error) { return c.Read(p) })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Empty(t, reading)
		require.NoError(t, c.SetDeadline(time.Now().Add(-time.Second)))
		isTimeout(t, <-reading)
		_, err = c.Write(recordFragments(successReply(testXID)))
		isTimeout(t, err)
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		writeAll(t, c, recordFragments(successReply(testXID)))
		assert.Equal(t, wire.Msg, q.onlyAnswer().Proc)
		time.Sleep(time.Second)
		synctest.Wait()
		_, err = c.Write(recordFragments(successReply(testXID)))
		isTimeout(t, err)

		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
		require.NoError(t, c.Close()) // with a running timer
		assert.ErrorIs(t, c.SetDeadline(time.Time{}), net.ErrClosed)
	})
}

// TestDeadlineReplaced checks that a deadline that passed while another
// was being set has no effect.
func TestDeadlineReplaced(t *testing.T) {
	withListener(t, nil, func(t *testing.T, r *testListener) {
		_, nc := r.connectAndCall()
		c := nc.(*conn)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		c.mu.Lock()
		time.Sleep(time.Second) // the timer's goroutine now waits for the lock
		c.readBy.setTime(c, time.Time{})
		c.mu.Unlock()
		synctest.Wait()
		assert.False(t, c.readBy.passed)
	})
}

// TestClose checks that Close unblocks waiters, and lets written replies
// go.
func TestClose(t *testing.T) {
	withListener(t, nil, func(t *testing.T, r *testListener) {
		q, c := r.connectAndCall()
		reading := runLater(func() (int, error) { return c.Read(make([]byte, 1)) })
		require.NoError(t, c.Close())
		assert.ErrorIs(t, <-reading, net.ErrClosed)
		require.NoError(t, c.Close(), "again")
		_, err := c.Read(nil)
		assert.ErrorIs(t, err, net.ErrClosed)
		_, err = c.Write(nil)
		assert.ErrorIs(t, err, net.ErrClosed)
		synctest.Wait()
		assert.Len(t, q.closeErrors(), 1)

		q, c = r.dialLinux(), nil
		for xid := range uint32(3) {
			q.sendCall(wire.Header{XID: xid, Proc: wire.Msg}, callTo(xid, procNull))
			synctest.Wait()
		}
		c = r.acceptConn()
		readRecord(t, c)
		writeAll(t, c, recordFragments(successReply(0)))
		writeAll(t, c, recordFragments(successReply(1))) // not read yet
		writeAll(t, c, recordFragments(successReply(2))[:10])
		require.NoError(t, c.Close())
		got := q.newAnswers()
		assert.Len(t, got, 2)
		assert.Len(t, q.closeErrors(), 1)
	})
}

// TestLost checks that only its own stream sees a connection's end.
func TestLost(t *testing.T) {
	cut := errors.New("cut")
	for name, end := range map[string]struct {
		end  func(q *requester)
		want error
	}{
		"closed": {func(q *requester) { q.Close() }, io.EOF},
		"lost":   {func(q *requester) { q.Abort(cut) }, rdma.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			withListener(t, nil, func(t *testing.T, r *testListener) {
				q, c := r.connectAndCall()
				q.sendCall(readListMsg(), callTo(testXID, procNull))
				synctest.Wait()
				readRecord(t, c)
				writeAll(t, c, recordFragments(successReply(testXID))[:20])
				reading := runLater(func() (int, error) { return c.Read(make([]byte, 1)) })
				end.end(q)
				err := <-reading
				if end.want == io.EOF {
					assert.Equal(t, io.EOF, err)
				} else {
					assert.NotEqual(t, io.EOF, err)
					assert.Error(t, err)
				}
				_, err = c.Write(recordFragments(successReply(testXID))[20:])
				assert.ErrorIs(t, err, rdma.ErrClosed)
				require.NoError(t, c.Close())
			})
		})
	}
}

// TestEnded checks that an orderly end may come without a cause.
func TestEnded(t *testing.T) {
	withListener(t, nil, func(t *testing.T, r *testListener) {
		q, c := r.connectAndCall()
		c.(*conn).handleLost(context.Canceled)
		_, err := c.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		require.NoError(t, q.Conn.Close())
	})
}

// TestNotAccepted checks that without Accept, calls wait, and end with
// their connection.
func TestNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		l := rdmatest.Listen(t)
		sl := Listen(l, testBinding{})
		go sl.Server.Serve(l)
		r := &testListener{t: t, listen: l}
		synctest.Wait()
		for range 3 {
			q := r.dialLinux()
			q.sendCall(readListMsg(), callTo(testXID, procNull))
			synctest.Wait()
			assert.Len(t, sl.ready, 1)
			require.NoError(t, q.Conn.Close())
			synctest.Wait()
			assert.Empty(t, sl.ready)
			assert.Empty(t, sl.conns)
		}
		q := r.dialLinux()
		q.sendCall(readListMsg(), callTo(testXID, procNull))
		idle := r.dialLinux()
		synctest.Wait()
		require.NoError(t, sl.Close())
		synctest.Wait()
		assert.Len(t, q.closeErrors(), 1)
		assert.Len(t, idle.closeErrors(), 1)
		_, err := sl.Accept()
		assert.ErrorIs(t, err, net.ErrClosed)
		assert.Equal(t, before, buf.Default.Out())
	})
}

// TestListenerClose checks that Close ends the listener but not accepted
// connections.
func TestListenerClose(t *testing.T) {
	withListener(t, nil, func(t *testing.T, r *testListener) {
		q, c := r.connectAndCall()
		idle := r.dialLinux()
		require.NoError(t, r.l.Close())
		synctest.Wait()
		assert.Len(t, idle.closeErrors(), 1)
		_, err := r.listen.Dial(t.Context(), rdma.ConnConfig{Handler: idle})
		assert.Error(t, err)
		q.sendCall(readListMsg(), callTo(testXID, procNull))
		synctest.Wait()
		readRecord(t, c)
		writeAll(t, c, recordFragments(successReply(testXID)))
		assert.Equal(t, wire.Msg, q.onlyAnswer().Proc)
		require.NoError(t, q.Conn.Close())
	})
}

// TestShutdown checks that Shutdown lets the calls in flight be answered.
func TestShutdown(t *testing.T) {
	withListener(t, nil, func(t *testing.T, r *testListener) {
		q, c := r.connectAndCall()
		q.sendCall(readListMsg(), callTo(testXID, procNull))
		synctest.Wait()
		over := make(chan error, 1)
		go func() { over <- r.l.Server.Shutdown(t.Context()) }()
		synctest.Wait()
		assert.Empty(t, over)
		_, err := r.l.Accept()
		assert.ErrorIs(t, err, net.ErrClosed)
		readRecord(t, c)
		writeAll(t, c, recordFragments(successReply(testXID)))
		require.NoError(t, <-over)
		assert.Len(t, q.newAnswers(), 1)
		_, err = c.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
	})
}

func TestConfig(t *testing.T) {
	sl := Listen(rdmatest.Listen(t), testBinding{})
	sl.Server.Credits = -1
	_, err := sl.Accept()
	assert.ErrorContains(t, err, "credits")
	require.NoError(t, sl.Close())
}

// TestParallel has many callers, a server that answers in any order and
// in pieces, several readers and writers, in real time, for the race detector.
func TestParallel(t *testing.T) {
	const callers, calls = 8, 50
	before := buf.Default.Out()
	l := rdmatest.Listen(t)
	sl := Listen(l, testBinding{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := sl.Accept()
			if err != nil {
				return
			}
			all.Go(func() { echoStream(t, c) })
		}
	})
	var done sync.WaitGroup
	for range 2 {
		c, err := rpcrdma.DialConn(t.Context(), listenDialer{l}, "", rpcrdma.ClientConnConfig{})
		require.NoError(t, err)
		for i := range callers {
			done.Go(func() {
				for n := range calls {
					echoCall(t, c, patternBytes((i*calls+n)*97+1))
				}
			})
		}
		t.Cleanup(func() { c.Close() })
	}
	done.Wait()
	require.NoError(t, sl.Server.Shutdown(context.Background()))
	all.Wait()
	assert.Equal(t, before, buf.Default.Out())
}

type listenDialer struct{ l *rdmatest.Listener }

func (d listenDialer) Dial(ctx context.Context, _ string, c rdma.ConnConfig) (rdma.Conn, error) {
	return d.l.Dial(ctx, c)
}

// echoCall sends data to the server and checks the same data in the results.
func echoCall(t *testing.T, c *rpcrdma.ClientConn, data []byte) {
	x := &oncrpc.Exchange{
		Prog: testProg, Vers: testVers, Proc: procItem,
		Args: joinBytes(encodeWord(len(data)), encodeWord(len(data))), Item: data, Tail: encodeWord(7),
		MaxResults: 12, Sink: make([]byte, len(data)),
	}
	if !assert.NoError(t, c.Call(t.Context(), x)) {
		return
	}
	defer x.Release()
	x.Results.Uint32()
	assert.True(t, bytes.Equal(data, x.Results.Item(1<<30)))
	x.Results.Uint32()
	assert.NoError(t, x.Results.Done())
}

// echoStream serves a connection: three goroutines take records in order, and
// answer in fragments and pieces.
func echoStream(t *testing.T, c net.Conn) {
	defer c.Close()
	var reading, writing sync.Mutex
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				reading.Lock()
				msg, err := nextRecord(c)
				reading.Unlock()
				if err != nil {
					assert.Equal(t, io.EOF, err)
					return
				}
				// limit, item, word: the results are status, item, word
				reply := successReply(binary.BigEndian.Uint32(msg), encodeWord(0), msg[44:])
				wire := recordFragments(reply, 1, 7, len(reply)/2)
				writing.Lock() // no other record may intervene
				_, _ = c.Write(wire[:len(wire)/3])
				_, _ = c.Write(wire[len(wire)/3:])
				writing.Unlock()
			}
		})
	}
	all.Wait()
}

// TestStreamsApart checks that calls that a server leaves unread do not block
// others.
func TestStreamsApart(t *testing.T) {
	const credits, serving = 128, 4096 // a Server's defaults
	withListener(t, nil, func(t *testing.T, r *testListener) {
		for range serving / credits {
			q := r.dialLinux()
			for xid := range uint32(credits) {
				h := readListMsg()
				h.XID = xid
				q.sendCall(h, callTo(xid, procNull))
			}
			defer r.acceptConn().Close()
		}
		q := r.dialLinux()
		q.sendCall(readListMsg(), callTo(testXID, procNull))
		c := r.acceptConn()
		assert.Len(t, readRecord(t, c), 40)
		writeAll(t, c, recordFragments(successReply(testXID)))
		assert.Equal(t, wire.Msg, q.onlyAnswer().Proc)
	})
}
