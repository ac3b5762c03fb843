package oncrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClientLoss checks that all calls get the reason why the connection ended:
// calls that wait for a reply, are being written, or are queued, and later
// calls.
func TestClientLoss(t *testing.T) {
	for _, tt := range []struct {
		name string
		cut  func(c *TCPClient, server net.Conn)
		want error
	}{
		{"the server ends it", func(_ *TCPClient, server net.Conn) { server.Close() }, io.EOF},
		{"Close", func(c *TCPClient, _ net.Conn) { c.Close() }, net.ErrClosed},
		{"a record is cut", func(_ *TCPClient, server net.Conn) {
			server.Write([]byte{0x80, 0, 0, 8, 1, 2, 3})
			server.Close()
		}, io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
				waits := startEcho(t.Context(), t, c, procHead, nil)
				readRecord(t, server)
				written := startEcho(t.Context(), t, c, procHead, make([]byte, 5000))
				_, err := io.ReadFull(server, make([]byte, 100))
				require.NoError(t, err)
				queued := startEcho(t.Context(), t, c, procHead, nil)
				tt.cut(c, server)
				for _, done := range []<-chan error{waits, written, queued} {
					err := <-done
					assert.ErrorIs(t, err, ErrClosed)
					assert.ErrorIs(t, err, tt.want)
				}
				assert.ErrorIs(t, callEcho(t.Context(), t, c, procHead, nil), tt.want)
			})
		})
	}
}

func TestClientReset(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := DialTCP(t.Context(), l.Addr().String(), ClientConfig{})
	require.NoError(t, err)
	defer closeClient(t, c)
	nc, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, nc.(*net.TCPConn).SetLinger(0))
	require.NoError(t, nc.Close())
	err = callEcho(t.Context(), t, c, procHead, nil)
	assert.ErrorIs(t, err, ErrClosed)
	// The first of read and write gets the reset, the other an end of the
	// stream.
	assert.True(t, errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF), "%v", err)
}

// TestClientWriteFails checks that a write error ends the connection even if
// nothing is read.
func TestClientWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := NewTCPClient(brokenWriteConn{near}, ClientConfig{})
		err := callEcho(t.Context(), t, c, procHead, nil)
		assert.ErrorIs(t, err, ErrClosed)
		assert.ErrorIs(t, err, errDeaf)
		closeClient(t, c)
		far.Close()
	})
}

// TestClientOthersDeadline checks that a read deadline which passes without a write error,
// because someone else has set it, is the cause that calls get.
func TestClientOthersDeadline(t *testing.T) {
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		done := startEcho(t.Context(), t, c, procHead, nil)
		readRecord(t, server)
		require.NoError(t, c.NetConn().SetReadDeadline(time.Now()))
		err := <-done
		assert.ErrorIs(t, err, ErrClosed)
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.NotContains(t, err.Error(), "nil")
	})
}

// brokenWriteConn is a connection whose writes fail.
type brokenWriteConn struct{ net.Conn }

var errDeaf = errors.New("deaf")

func (brokenWriteConn) Write([]byte) (int, error) { return 0, errDeaf }

// TestClientLastWords checks that the last message of a server takes precedence
// over the write error.
func TestClientLastWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := NewTCPClient(brokenWriteConn{near}, ClientConfig{})
		done := startEcho(t.Context(), t, c, procHead, nil)
		time.Sleep(lastMessageTimeout / 2)
		sendParts(t, far, []byte("HTTP/1.1 400 Bad Request\r\n"))
		assert.ErrorContains(t, <-done, "HTTP/1.1 400")
		closeClient(t, c)
		far.Close()
	})
}

// TestClientCloseWaitsForReader checks that Close waits for the reader
// goroutine.
func TestClientCloseWaitsForReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := NewTCPClient(slowReadConn{near}, ClientConfig{})
		begin := time.Now()
		closeClient(t, c)
		assert.Equal(t, time.Second, time.Since(begin))
		far.Close()
	})
}

// slowReadConn is a connection whose Read returns a second late.
type slowReadConn struct{ net.Conn }

func (s slowReadConn) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	time.Sleep(time.Second)
	return n, err
}

// TestClientCloseWaits checks that Close waits for calls in every state.
func TestClientCloseWaits(t *testing.T) {
	g := newGate()
	r := startServer(t, &Server{Handler: g.newMux()})
	c := r.dialClient(ClientConfig{})
	done := make(chan error, 10)
	for range cap(done) {
		go func() { done <- c.Call(context.Background(), &Exchange{Prog: testProg, Vers: 2, Proc: 1}) }()
		<-g.entered
	}
	go c.Close()
	require.NoError(t, c.Close())
	close(g.open)
	for range cap(done) {
		assert.ErrorIs(t, <-done, net.ErrClosed)
	}
}

// TestClientReplyTooLong checks that a reply longer than any call allows ends
// the connection before memory is lent, and that so does a reply longer than
// its own call allows.
func TestClientReplyTooLong(t *testing.T) {
	const allowed = MaxReplyHeader + 4 + 8 // procHead's reply with 8 bytes
	for _, tt := range []struct {
		name  string
		other int // bytes of another call
		reply func(xid uint32) []byte
		want  string
	}{
		{"than any", 0, func(uint32) []byte { return []byte{0x80, 0, 0x10, 0} }, "a fragment of 4096"},
		{"in fragments", 0, func(xid uint32) []byte {
			return append(newFragment(false, echoReply(xid, procHead, nil)), newFragment(true, make([]byte, allowed-27))...)
		}, "28 bytes and a fragment of 409"},
		{"than its own", 5000, func(xid uint32) []byte {
			return newRecord(echoReply(xid, procHead, make([]byte, allowed-24)))
		}, "of 440 bytes to a call that allows 436"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
				done := startEcho(t.Context(), t, c, procHead, make([]byte, 8))
				reply := tt.reply(xidOf(readRecord(t, server)))
				if tt.other > 0 {
					other := startEcho(t.Context(), t, c, procHead, make([]byte, tt.other))
					readRecord(t, server)
					defer func() { assert.ErrorIs(t, <-other, errRecordLong) }()
				}
				go server.Write(reply)
				err := <-done
				assert.ErrorIs(t, err, ErrClosed)
				assert.ErrorIs(t, err, errRecordLong)
				assert.ErrorContains(t, err, tt.want)
			})
		})
	}
}

// TestClientNotRPC checks that the error quotes the first bytes of a server
// that does not speak RPC.
func TestClientNotRPC(t *testing.T) {
	for _, tt := range []struct{ name, says, want string }{
		{"HTTP", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", `first bytes are "HTTP/1.1 400 Bad Request\r\n`},
		{"SSH", "SSH-2.0-OpenSSH_9.2p1\r\n", `first bytes are "SSH-2.0-OpenSSH_9.2p1\r\n"`},
		{"TLS alert", "\x15\x03\x03\x00\x02\x02\x46", `first bytes are "\x15\x03\x03`},
		{"an empty record", "\x80\x00\x00\x00", "a record of 0 bytes"},
		{"half an XID", "\x80\x00\x00\x03abc", "a record of 3 bytes"},
		{"nothing", "", "closed it after 0 replies"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
				done := startEcho(t.Context(), t, c, procHead, nil)
				readRecord(t, server)
				_, _ = server.Write([]byte(tt.says))
				server.Close()
				err := <-done
				assert.ErrorIs(t, err, ErrClosed)
				assert.ErrorContains(t, err, tt.want)
			})
		})
	}
}

// TestClientHTTP checks a real web server, which finds a line in the call or
// waits for one.
func TestClientHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http.Server{}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	defer func() {
		assert.NoError(t, s.Close())
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	}()
	for _, tt := range []struct {
		xid   uint32
		limit time.Duration
		want  string
	}{
		{0x0a0a0a0a, time.Minute, `the server does not seem to speak RPC, its first bytes are "HTTP/1.1 400 Bad Request`},
		{0x01010101, 50 * time.Millisecond, os.ErrDeadlineExceeded.Error()},
	} {
		c, err := DialTCP(t.Context(), l.Addr().String(), ClientConfig{})
		require.NoError(t, err)
		c.xids = NewXIDs(tt.xid)
		ctx, cancel := context.WithTimeoutCause(t.Context(), tt.limit, os.ErrDeadlineExceeded)
		err = callEcho(ctx, t, c, procHead, nil)
		assert.ErrorContains(t, err, tt.want)
		cancel()
		closeClient(t, c)
	}
}

// TestClientSilentServer checks that a silent server costs only the time of the
// call's context.
func TestClientSilentServer(t *testing.T) {
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		begin := time.Now()
		for _, reads := range []bool{false, true} { // the server need not even read
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if reads {
				go io.Copy(io.Discard, server)
			}
			assert.ErrorIs(t, callEcho(ctx, t, c, procHead, make([]byte, 1<<16)), context.DeadlineExceeded)
			cancel()
		}
		assert.Equal(t, 2*time.Minute, time.Since(begin))
	})
}
