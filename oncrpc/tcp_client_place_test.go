package oncrpc

import (
	"bytes"
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startPlacedEcho starts a call of echo whose item goes to the Sink of x.
func startPlacedEcho(ctx context.Context, c Caller, x *Exchange) <-chan error {
	x.Locate = func(r *xdr.Reader) int { return int(r.Uint32()) }
	done := make(chan error, 1)
	go func() { done <- c.Call(ctx, x) }()
	synctest.Wait()
	return done
}

// TestClientPlaces checks that items of every padding are received into the Sink, in
// pieces of the stream, and that what follows them is read.
func TestClientPlaces(t *testing.T) {
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		for n := smallRecord + 1; n <= smallRecord+8; n++ {
			data := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, n)[:n]
			x := newEchoExchange(procEcho, data)
			done := startPlacedEcho(t.Context(), c, x)
			reply := newRecord(echoReply(xidOf(readRecord(t, server)), procEcho, data))
			for _, cut := range []int{2, 7, 30, 600, len(reply) - 5} {
				sendParts(t, server, reply[:cut])
				synctest.Wait()
				sendParts(t, server, reply[cut:])
				require.NoError(t, <-done)
				item := x.Results.Item(n)
				require.Same(t, &x.Sink[0], &item[0])
				assert.True(t, bytes.Equal(data, item))
				assert.EqualValues(t, 0xdeadbeef, x.Results.Uint32())
				assert.NoError(t, x.Results.Done())
				assert.Less(t, len(x.Lent.B), 100)
				x.Release()
				done = startPlacedEcho(t.Context(), c, x)
				reply = newRecord(echoReply(xidOf(readRecord(t, server)), procEcho, data))
			}
			sendParts(t, server, reply)
			require.NoError(t, <-done)
			x.Release()
		}
	})
}

// TestClientPlacesNothing checks replies whose item cannot be received into the Sink:
// their results, or errors, are as without Locate.
func TestClientPlacesNothing(t *testing.T) {
	data := make([]byte, 9000)
	for name, tt := range map[string]struct {
		change func(x *Exchange)
		reply  func(xid uint32) []byte
		want   error
	}{
		"none located":          {func(x *Exchange) { x.Locate = func(*xdr.Reader) int { return 0 } }, nil, nil},
		"longer than the sink":  {func(x *Exchange) { x.Sink, x.MaxResults = x.Sink[:8999], 9 }, nil, nil},
		"longer than the reply": {func(x *Exchange) { x.Locate = func(*xdr.Reader) int { return 9001 } }, nil, nil},
		"negative":              {func(x *Exchange) { x.Locate = func(*xdr.Reader) int { return -4 } }, nil, nil},
		"past the head":         {func(x *Exchange) { x.Locate = func(r *xdr.Reader) int { r.Fixed(2000); return 1000 } }, nil, nil},
		"an error": {func(*Exchange) {}, func(xid uint32) []byte {
			return append(rpcmsg.AppendAccepted(nil, xid, rpcmsg.GarbageArgs), data...)
		}, ErrGarbageArgs},
	} {
		t.Run(name, func(t *testing.T) {
			runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
				x := newEchoExchange(procEcho, data)
				done := make(chan error, 1)
				x.Locate = func(r *xdr.Reader) int { return int(r.Uint32()) }
				tt.change(x)
				go func() { done <- c.Call(t.Context(), x) }()
				xid := xidOf(readRecord(t, server))
				reply := echoReply(xid, procEcho, data)
				if tt.reply != nil {
					reply = tt.reply(xid)
				}
				sendParts(t, server, newRecord(reply))
				err := <-done
				assert.ErrorIs(t, err, tt.want)
				if err == nil {
					assert.True(t, bytes.Equal(data, x.Results.Item(9000)))
				}
				x.Release()
			})
		})
	}
}

// TestClientPlacesEnd gives a call up, or ends the connection, after each part of its
// reply. The memory is the caller's again when the call returns, and after a call that
// was given up the connection goes on.
func TestClientPlacesEnd(t *testing.T) {
	data := bytes.Repeat([]byte{7}, 9000)
	whole := len(newRecord(echoReply(0, procEcho, data)))
	for _, cut := range []int{3, 4, 7, 8, 20, 500, 1027, 1028, 1029, 5000, whole - 8, whole - 1} {
		for name, end := range map[string]func(c *TCPClient, server net.Conn, cancel func()){
			"given up":  func(_ *TCPClient, _ net.Conn, cancel func()) { cancel() },
			"lost":      func(_ *TCPClient, server net.Conn, _ func()) { server.Close() },
			"closed":    func(c *TCPClient, _ net.Conn, _ func()) { c.closeWith(net.ErrClosed) },
			"both ends": func(_ *TCPClient, server net.Conn, cancel func()) { server.Close(); cancel() },
		} {
			runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				x := newEchoExchange(procEcho, data)
				done := startPlacedEcho(ctx, c, x)
				reply := newRecord(echoReply(xidOf(readRecord(t, server)), procEcho, data))
				sendParts(t, server, reply[:cut])
				synctest.Wait()
				began := time.Now()
				end(c, server, cancel)
				assert.Error(t, <-done, "%s %d", name, cut)
				assert.Zero(t, time.Since(began))
				assert.Nil(t, x.Lent)
				if name != "given up" {
					return
				}
				clear(x.Sink)
				sendParts(t, server, reply[cut:])
				synctest.Wait()
				assert.Equal(t, -1, bytes.IndexByte(x.Sink, 7), "the caller's memory, %d", cut)
				next := startEcho(t.Context(), t, c, procHead, []byte("next"))
				answerEcho(t, server, procHead, []byte("next"))
				require.NoError(t, <-next, cut)
			})
		}
	}
}

// TestClientPlacesUntilRead checks that a call whose reply is being received returns no
// earlier than the reader leaves its memory, also at the end of the connection.
func TestClientPlacesUntilRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := NewTCPClient(slowReadConn{near}, ClientConfig{})
		data := make([]byte, 40_000)
		done := startPlacedEcho(t.Context(), c, newEchoExchange(procEcho, data))
		reply := newRecord(echoReply(xidOf(readRecord(t, far)), procEcho, data))
		sendParts(t, far, reply[:readBuffer])
		time.Sleep(time.Minute)
		began := time.Now()
		c.closeWith(net.ErrClosed)
		assert.ErrorIs(t, <-done, ErrClosed)
		assert.Equal(t, time.Second, time.Since(began))
		closeClient(t, c)
		far.Close()
	})
}
