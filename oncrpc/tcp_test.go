package oncrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServerGolden(t *testing.T) {
	m := echoMux()
	m.Register(nfs, 3, handlerFunc(nil))
	nc := startServer(t, &Server{Handler: m}).dialServer()
	_, err := nc.Write(newRecord(wiretest.Hex(t, "testdata/null-call.hex")))
	require.NoError(t, err)
	got := make([]byte, 28)
	_, err = io.ReadFull(nc, got)
	require.NoError(t, err)
	want := append(wiretest.Bytes(t, "80 00 00 18 # last fragment, 24 bytes"), wiretest.Hex(t, "testdata/null-reply.hex")...)
	assert.Equal(t, want, got)
}

// TestServerAllocatesNothing checks that the server allocates nothing for a
// call.
func TestServerAllocatesNothing(t *testing.T) {
	nc := startServer(t, &Server{Handler: echoMux()}).dialServer()
	stream := newRecord(echoCall(1, procEcho, make([]byte, 9000)))
	reply := make([]byte, markLen+len(echoReply(1, procEcho, make([]byte, 9000))))
	allocs := testing.AllocsPerRun(200, func() {
		if _, err := nc.Write(stream); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(nc, reply); err != nil {
			t.Fatal(err)
		}
	})
	assert.LessOrEqual(t, allocs, racetest.PoolLosses(2)) // for 200 calls, rounded down
}

// TestServerEcho checks items of all paddings and sizes.
func TestServerEcho(t *testing.T) {
	nc := startServer(t, &Server{Handler: echoMux()}).dialServer()
	for _, n := range []int{0, 1, 2, 3, 4, 5, 511, 4095, 4097, 65537, 1 << 20} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i * 7)
		}
		for _, proc := range []uint32{procEcho, procHead} {
			_, err := nc.Write(newRecord(echoCall(uint32(n), proc, data)))
			require.NoError(t, err)
			require.True(t, bytes.Equal(echoReply(uint32(n), proc, data), readRecord(t, nc)), "%d bytes, procedure %d", n, proc)
		}
	}
}

func TestServerFragments(t *testing.T) {
	nc := startServer(t, &Server{Handler: echoMux()}).dialServer()
	msg := echoCall(5, procEcho, []byte("hello"))
	want := echoReply(5, procEcho, []byte("hello"))
	for i := range len(msg) + 1 {
		_, err := nc.Write(append(newFragment(false, msg[:i]), newFragment(true, msg[i:])...))
		require.NoError(t, err)
		require.Equal(t, want, readRecord(t, nc))
	}
	for i := range msg { // each byte in a fragment and a segment of its own
		_, err := nc.Write(newFragment(false, msg[i:i+1]))
		require.NoError(t, err)
	}
	_, err := nc.Write(newFragment(true, nil))
	require.NoError(t, err)
	require.Equal(t, want, readRecord(t, nc))
}

// TestServerNoAnswer checks that messages without an answer do not block calls.
func TestServerNoAnswer(t *testing.T) {
	nc := startServer(t, &Server{Handler: echoMux()}).dialServer()
	for range 3 * maxCalls { // more than the slots
		stream := append(newRecord(nil), newRecord([]byte("short"))...)
		stream = append(stream, newRecord(rpcmsg.AppendAccepted(nil, 1, rpcmsg.Success))...)
		_, err := nc.Write(stream)
		require.NoError(t, err)
	}
	_, err := nc.Write(newRecord(echoCall(8, procEcho, nil)))
	require.NoError(t, err)
	assert.Equal(t, echoReply(8, procEcho, nil), readRecord(t, nc))
}

func TestServerCutsTooLong(t *testing.T) {
	r := startServer(t, &Server{Handler: echoMux(), MaxRecord: 1000, Log: discardLogger()})
	for _, stream := range [][]byte{
		binary.BigEndian.AppendUint32(nil, lastFrag|1001),
		append(newFragment(false, make([]byte, 1000)), 0, 0, 0, 1),
		{0x7f, 0xff, 0xff, 0xff},
	} {
		nc := r.dialServer()
		_, err := nc.Write(stream)
		require.NoError(t, err)
		_, err = nc.Read(make([]byte, 1))
		assert.Error(t, err) // end or reset, depending on the kernel
	}
	nc := r.dialServer()
	_, err := nc.Write(newRecord(echoCall(1, procEcho, make([]byte, 900))))
	require.NoError(t, err)
	readRecord(t, nc)
}

func TestServerReplyTooLong(t *testing.T) {
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
		r.Head = append(r.Head, make([]byte, 1000)...)
		return nil
	}))
	nc := startServer(t, &Server{Handler: m, MaxRecord: 1000}).dialServer()
	_, err := nc.Write(newRecord(newCallMessage(1, testProg, 2, 1)))
	require.NoError(t, err)
	assert.Equal(t, rpcmsg.AppendAccepted(nil, 1, rpcmsg.SystemErr), readRecord(t, nc))
}

func TestServerPeer(t *testing.T) {
	m := new(Mux)
	peers := make(chan Peer, 1)
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error {
		peers <- *c.Peer
		return nil
	}))
	s := &Server{Handler: m}
	nc := startServer(t, s).dialServer()
	_, err := nc.Write(newRecord(newCallMessage(1, testProg, 2, 1)))
	require.NoError(t, err)
	readRecord(t, nc)
	peer := <-peers
	assert.Equal(t, nc.LocalAddr().(*net.TCPAddr).AddrPort(), peer.Addr)
	assert.Equal(t, nc.RemoteAddr().(*net.TCPAddr).AddrPort(), peer.Local)
	assert.Equal(t, "tcp", peer.Network)
	peer.Cut(errors.New("enough"))
	_, err = nc.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err, "once its service cuts it")

	mapped := &net.TCPAddr{IP: net.ParseIP("::ffff:10.0.2.15"), Port: 1023}
	pipe, _ := net.Pipe() // the local end has no TCP address
	other := peerOf(addrConn{pipe, mapped})
	assert.Equal(t, "tcp 10.0.2.15:1023", other.String())
	assert.Zero(t, other.Local)
}

// An addrConn is a connection with a given peer address.
type addrConn struct {
	net.Conn
	remote net.Addr
}

func (c addrConn) RemoteAddr() net.Addr { return c.remote }

// TestServerConcurrent makes many concurrent calls on many connections,
// answered in any order.
func TestServerConcurrent(t *testing.T) {
	r := startServer(t, &Server{Handler: echoMux()})
	var wg sync.WaitGroup
	for g := range 8 {
		nc := r.dialServer()
		const calls = 150
		size := func(xid uint32) int { return int(xid*xid*131) % (1 << (8 + g)) }
		wg.Go(func() {
			for xid := range uint32(calls) {
				_, err := nc.Write(newRecord(echoCall(xid, procEcho, bytes.Repeat([]byte{byte(xid)}, size(xid)))))
				assert.NoError(t, err)
			}
		})
		wg.Go(func() {
			seen := make(map[uint32]bool)
			for range calls {
				got := readRecord(t, nc)
				xid := binary.BigEndian.Uint32(got)
				seen[xid] = true
				assert.True(t, bytes.Equal(echoReply(xid, procEcho, bytes.Repeat([]byte{byte(xid)}, size(xid))), got))
			}
			assert.Len(t, seen, calls)
		})
	}
	wg.Wait()
}
