package oncrpc

import (
	"context"
	"encoding/binary"
	"math"
	"net"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// runPiped runs f with a TCPClient in virtual time; the test plays the server. A
// goroutine or a buffer that is left fails the test.
func runPiped(t *testing.T, f func(t *testing.T, c *TCPClient, server net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := NewTCPClient(near, ClientConfig{Machine: "rig"})
		defer func() {
			far.Close()
			closeClient(t, c)
			assert.Zero(t, buf.Default.Out(), "buffers")
		}()
		f(t, c, far)
	})
}

// startEcho starts a call of echo; its error arrives on the channel.
func startEcho(ctx context.Context, t *testing.T, c Caller, proc uint32, data []byte) <-chan error {
	done := make(chan error, 1)
	go func() { done <- callEcho(ctx, t, c, proc, data) }()
	synctest.Wait()
	return done
}

func sendParts(t *testing.T, server net.Conn, parts ...[]byte) {
	t.Helper()
	for _, b := range parts {
		_, err := server.Write(b)
		require.NoError(t, err)
	}
}

func xidOf(msg []byte) uint32 { return binary.BigEndian.Uint32(msg) }

// TestClientGolden checks that the client sends the bytes that Linux sends, and
// reads knfsd's reply.
func TestClientGolden(t *testing.T) {
	call := wiretest.Hex(t, "testdata/getattr-call.hex")
	reply := wiretest.Hex(t, "testdata/getattr-reply.hex")
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		c.xids = NewXIDs(xidOf(call))
		x := &Exchange{
			Prog: nfs, Vers: 3, Proc: 1, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys},
			Args: call[len(call)-12:], MaxResults: 88,
		}
		done := make(chan error)
		go func() { done <- c.Call(t.Context(), x) }()
		assert.Equal(t, call, readRecord(t, server))
		sendParts(t, server, newRecord(reply))
		require.NoError(t, <-done)
		assert.Equal(t, reply[24:], x.Results.Fixed(88))
		assert.NoError(t, x.Results.Done())
		x.Release()
	})
}

// TestClientFragments checks replies in any number of fragments (RFC 5531,
// Section 11), cut at any byte, and in any pieces of the stream.
func TestClientFragments(t *testing.T) {
	data := []byte("fragments")
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		exchange := func(split func(reply []byte) [][]byte) {
			t.Helper()
			done := startEcho(t.Context(), t, c, procEcho, data)
			reply := echoReply(xidOf(readRecord(t, server)), procEcho, data)
			sendParts(t, server, split(reply)...)
			require.NoError(t, <-done)
		}
		for cut := range len(echoReply(0, procEcho, data)) + 1 {
			exchange(func(r []byte) [][]byte {
				return [][]byte{newFragment(false, r[:cut]), newFragment(true, r[cut:])}
			})
		}
		exchange(func(r []byte) (all [][]byte) {
			for i := range r {
				all = append(all, newFragment(false, r[i:i+1]))
			}
			return append(all, newFragment(true, nil))
		})
		exchange(func(r []byte) (all [][]byte) {
			for _, b := range newRecord(r) {
				all = append(all, []byte{b})
			}
			return all
		})
	})
}

// TestClientOrder checks that replies in any order reach their calls by XID.
func TestClientOrder(t *testing.T) {
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		c.xids = NewXIDs(1<<32 - 2) // so that XIDs wrap around
		var calls [][]byte
		var done []<-chan error
		for i := range 5 {
			done = append(done, startEcho(t.Context(), t, c, procHead, []byte{byte(i)}))
			calls = append(calls, readRecord(t, server))
		}
		assert.EqualValues(t, 1<<32-2, xidOf(calls[0]))
		assert.EqualValues(t, 3, xidOf(calls[4]), "0 is none")
		for _, i := range []int{3, 0, 4, 2, 1} {
			r := xdr.NewReader(calls[i][40:])
			sendParts(t, server, newRecord(echoReply(xidOf(calls[i]), procHead, r.Opaque(9))))
			assert.NoError(t, <-done[i])
		}
	})
}

// TestClientXIDInUse checks that the XID of a call in flight is not used again.
func TestClientXIDInUse(t *testing.T) {
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		first := startEcho(t.Context(), t, c, procHead, []byte("first"))
		xid := xidOf(readRecord(t, server))
		c.xids = NewXIDs(xid)
		second := startEcho(t.Context(), t, c, procHead, []byte("second"))
		require.Equal(t, xid+1, xidOf(readRecord(t, server)))
		sendParts(t, server, newRecord(echoReply(xid+1, procHead, []byte("second"))), newRecord(echoReply(xid, procHead, []byte("first"))))
		assert.NoError(t, <-first)
		assert.NoError(t, <-second)
	})
}

// TestClientXIDStart checks that clients start with different XIDs: after a
// restart, a server may still have the old replies.
func TestClientXIDStart(t *testing.T) {
	runPiped(t, func(t *testing.T, a *TCPClient, _ net.Conn) {
		b := NewTCPClient(a.nc, ClientConfig{})
		assert.NotEqual(t, a.xids.Next(), b.xids.Next())
		assert.NotEmpty(t, b.machine)
		closeClient(t, b)
	})
}

// TestClientLongestReply checks the longest reply that a call allows, with the
// longest verifier.
func TestClientLongestReply(t *testing.T) {
	data := make([]byte, 9000)
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		done := startEcho(t.Context(), t, c, procEcho, data)
		xid := xidOf(readRecord(t, server))
		reply := xdr.AppendUint32(rpcmsg.AppendReply(nil, xid, rpcmsg.MsgAccepted), 6)
		reply = xdr.AppendOpaque(reply, make([]byte, rpcmsg.MaxAuthBody))
		reply = xdr.AppendOpaque(xdr.AppendUint32(reply, rpcmsg.Success), data)
		reply = append(reply, echoTail...)
		sendParts(t, server, newRecord(reply))
		assert.NoError(t, <-done)
	})
}

// TestClientDropsNonsense checks that a record without a waiting call is
// dropped, and that a malformed reply fails only its own call.
func TestClientDropsNonsense(t *testing.T) {
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		done := startEcho(t.Context(), t, c, procHead, []byte("data"))
		xid := xidOf(readRecord(t, server))
		reply := newRecord(echoReply(xid, procHead, []byte("data")))
		sendParts(t, server, newRecord([]byte{1, 2, 3, 4}), newRecord(echoReply(xid+1, procHead, []byte("data"))))
		synctest.Wait()
		require.Empty(t, done)
		sendParts(t, server, reply, reply)
		assert.NoError(t, <-done)

		done = startEcho(t.Context(), t, c, procHead, nil)
		sendParts(t, server, newRecord(readRecord(t, server))) // the call itself
		assert.ErrorIs(t, <-done, errReply)
		done = startEcho(t.Context(), t, c, procHead, nil)
		sendParts(t, server, newRecord(readRecord(t, server)[:4]))
		assert.ErrorIs(t, <-done, errReply)

		done = startEcho(t.Context(), t, c, procHead, nil)
		sendParts(t, server, newRecord(echoReply(xidOf(readRecord(t, server)), procHead, nil)))
		assert.NoError(t, <-done, "the connection lives")
	})
}

// TestClientCallTooLong checks the bound of 31 bits in a record's mark.
func TestClientCallTooLong(t *testing.T) {
	large, err := unix.Mmap(-1, 0, 1<<31, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	require.NoError(t, err)
	defer unix.Munmap(large)
	runPiped(t, func(t *testing.T, c *TCPClient, server net.Conn) {
		item := large[:math.MaxInt32-40] // without the header, and a byte of padding exceeds the bound
		assert.ErrorContains(t, c.Call(t.Context(), &Exchange{Item: item}), "2147483648 bytes")
		done := startEcho(t.Context(), t, c, procHead, nil)
		answerEcho(t, server, procHead, nil)
		assert.NoError(t, <-done)
	})
}
