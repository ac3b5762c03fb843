package oncrpc

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A pipeListener is a listener whose connections come from the test.
type pipeListener struct {
	conns chan net.Conn
	errs  chan error
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), errs: make(chan error), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case err := <-l.errs:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (l *pipeListener) dialPipe() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// runInBubble runs f with a Server in virtual time. A goroutine that is left fails
// the test.
func runInBubble(t *testing.T, s *Server, f func(t *testing.T, l *pipeListener)) {
	synctest.Test(t, func(t *testing.T) {
		s.init()
		l := newPipeListener()
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		f(t, l)
		assert.NoError(t, s.Shutdown(t.Context()))
		assert.NoError(t, <-served)
		checkNothingLeft(t, s)
	})
}

// TestIdleConnectionIsKept checks that a connection may be idle between records
// for any time (R8881-2.9.2-1).
func TestIdleConnectionIsKept(t *testing.T) {
	runInBubble(t, &Server{Handler: echoMux()}, func(t *testing.T, l *pipeListener) {
		nc := l.dialPipe()
		defer nc.Close()
		for xid := range uint32(3) {
			time.Sleep(24 * time.Hour)
			data := make([]byte, 2*readBuffer*int(xid&1)) // for one read, or for several
			go nc.Write(newRecord(echoCall(xid, procEcho, data)))
			assert.True(t, bytes.Equal(echoReply(xid, procEcho, data), readRecord(t, nc)))
		}
	})
}

// TestUnfinishedRecordIsCut checks that a record that does not end is given up,
// whether the peer is silent or slow.
func TestUnfinishedRecordIsCut(t *testing.T) {
	for name, stream := range map[string][]byte{
		"mark cut":        {0x80, 0x00},
		"nothing follows": {0x80, 0x00, 0x00, 0x10},
		"record cut":      newRecord(echoCall(1, procEcho, nil))[:30],
		"large":           {0x80, 0x10, 0x00, 0x00, 1, 2, 3},
		"not the last":    newFragment(false, echoCall(1, procEcho, nil)),
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := &Server{Handler: echoMux(), Log: slog.New(slog.NewTextHandler(&log, nil))}
			runInBubble(t, s, func(t *testing.T, l *pipeListener) {
				nc := l.dialPipe()
				before := time.Now()
				_, err := nc.Write(stream)
				require.NoError(t, err)
				_, err = nc.Read(make([]byte, 1))
				assert.Equal(t, io.EOF, err)
				assert.Equal(t, recordTimeout, time.Since(before))
			})
			assert.Contains(t, log.String(), "level=WARN")
		})
	}
	t.Run("a byte a second", func(t *testing.T) {
		runInBubble(t, &Server{Handler: echoMux(), Log: discardLogger()}, func(t *testing.T, l *pipeListener) {
			nc := l.dialPipe()
			before := time.Now()
			var err error
			for _, b := range newRecord(echoCall(1, procEcho, nil)) {
				if _, err = nc.Write([]byte{b}); err != nil {
					break
				}
				time.Sleep(time.Second)
			}
			assert.ErrorIs(t, err, io.ErrClosedPipe)
			assert.InDelta(t, recordTimeout, time.Since(before), float64(2*time.Second))
		})
	})
	t.Run("empty fragments for ever", func(t *testing.T) {
		runInBubble(t, &Server{Handler: echoMux(), Log: discardLogger()}, func(t *testing.T, l *pipeListener) {
			nc := l.dialPipe()
			var err error
			for err == nil {
				_, err = nc.Write(make([]byte, 64))
				time.Sleep(time.Millisecond)
			}
			assert.ErrorIs(t, err, io.ErrClosedPipe)
		})
	})
}

// TestSlowReaderIsCut checks that a peer that does not read its replies blocks
// only itself, is cut after some time, and that its memory is then released.
func TestSlowReaderIsCut(t *testing.T) {
	runInBubble(t, &Server{Handler: echoMux(), Log: discardLogger()}, func(t *testing.T, l *pipeListener) {
		nc := l.dialPipe()
		for xid := range uint32(maxCalls) {
			_, err := nc.Write(newRecord(echoCall(xid, procEcho, make([]byte, 10000))))
			require.NoError(t, err)
		}
		synctest.Wait()
		assert.NotZero(t, buf.Default.Out())
		before := time.Now()
		_, err := nc.Write([]byte{0}) // no slot is free to read it
		assert.ErrorIs(t, err, io.ErrClosedPipe)
		assert.InDelta(t, writeTimeout, time.Since(before), float64(armTime))
		synctest.Wait()
		assert.Zero(t, buf.Default.Out())
	})
}

// TestRepliesAreGathered checks that replies that wait for a peer leave
// together.
func TestRepliesAreGathered(t *testing.T) {
	runInBubble(t, &Server{Handler: echoMux()}, func(t *testing.T, l *pipeListener) {
		nc := l.dialPipe()
		defer nc.Close()
		for xid := range uint32(20) {
			_, err := nc.Write(newRecord(echoCall(xid, procEcho, nil)))
			require.NoError(t, err)
		}
		time.Sleep(writeTimeout - time.Second)
		first := readRecord(t, nc)
		assert.Len(t, first, len(echoReply(0, procEcho, nil)))
		time.Sleep(writeTimeout - time.Second) // the second write has its own deadline
		for range 19 {
			readRecord(t, nc)
		}
	})
}

func TestAcceptErrors(t *testing.T) {
	s := &Server{Handler: echoMux(), Log: discardLogger()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ECONNABORTED} {
			before := time.Now()
			l.errs <- errno
			nc := l.dialPipe()
			assert.Equal(t, acceptDelay, time.Since(before))
			go nc.Write(newRecord(echoCall(1, procEcho, nil)))
			readRecord(t, nc)
			nc.Close()
		}
		before := time.Now()
		l.errs <- syscall.EMFILE
		synctest.Wait()
		require.NoError(t, s.Shutdown(t.Context()))
		synctest.Wait() // Serve returns at once
		assert.Zero(t, time.Since(before))
		assert.Empty(t, s.listeners)
	})
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		served := make(chan error, 1)
		s := &Server{Handler: echoMux()}
		go func() { served <- s.Serve(l) }()
		broken := errors.New("broken")
		l.errs <- broken
		assert.Equal(t, broken, <-served)
		require.NoError(t, s.Shutdown(t.Context()))
		checkNothingLeft(t, s)
	})
}
