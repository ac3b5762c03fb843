package oncrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/xdr"
)

func TestServerGolden(t *testing.T) {
	m := echoMux()
	m.Register(nfs, 3, handlerFunc(nil))
	nc := start(t, &Server{Handler: m}).dial()
	_, err := nc.Write(record(wiretest.Hex(t, "testdata/null-call.hex")))
	require.NoError(t, err)
	got := make([]byte, 28)
	_, err = io.ReadFull(nc, got)
	require.NoError(t, err)
	want := append(wiretest.Octets(t, "80 00 00 18 # last fragment, 24 octets"), wiretest.Hex(t, "testdata/null-reply.hex")...)
	assert.Equal(t, want, got)
}

// A call costs no allocation, from the socket to the socket.
func TestServerAllocatesNothing(t *testing.T) {
	nc := start(t, &Server{Handler: echoMux()}).dial()
	stream := record(echoCall(1, procEcho, make([]byte, 9000)))
	reply := make([]byte, markLen+len(echoReply(1, procEcho, make([]byte, 9000))))
	allocs := testing.AllocsPerRun(200, func() {
		if _, err := nc.Write(stream); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(nc, reply); err != nil {
			t.Fatal(err)
		}
	})
	assert.LessOrEqual(t, allocs, poolLosses) // of 200 calls, rounded down
}

// Items of all paddings and sizes leave in their place.
func TestServerEcho(t *testing.T) {
	nc := start(t, &Server{Handler: echoMux()}).dial()
	for _, n := range []int{0, 1, 2, 3, 4, 5, 511, 4095, 4097, 65537, 1 << 20} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i * 7)
		}
		for _, proc := range []uint32{procEcho, procHead} {
			_, err := nc.Write(record(echoCall(uint32(n), proc, data)))
			require.NoError(t, err)
			require.True(t, bytes.Equal(echoReply(uint32(n), proc, data), readRecord(t, nc)), "%d octets, procedure %d", n, proc)
		}
	}
}

func TestServerFragments(t *testing.T) {
	nc := start(t, &Server{Handler: echoMux()}).dial()
	msg := echoCall(5, procEcho, []byte("hello"))
	want := echoReply(5, procEcho, []byte("hello"))
	for i := range len(msg) + 1 {
		_, err := nc.Write(append(fragment(false, msg[:i]), fragment(true, msg[i:])...))
		require.NoError(t, err)
		require.Equal(t, want, readRecord(t, nc))
	}
	for i := range msg { // each octet in a fragment and a segment of its own
		_, err := nc.Write(fragment(false, msg[i:i+1]))
		require.NoError(t, err)
	}
	_, err := nc.Write(fragment(true, nil))
	require.NoError(t, err)
	require.Equal(t, want, readRecord(t, nc))
}

// What gets no answer does not hold up what does.
func TestServerNoAnswer(t *testing.T) {
	nc := start(t, &Server{Handler: echoMux()}).dial()
	for range 3 * maxCalls { // more than there are slots
		stream := append(record(nil), record([]byte("short"))...)
		stream = append(stream, record(appendAccepted(nil, 1, success))...)
		_, err := nc.Write(stream)
		require.NoError(t, err)
	}
	_, err := nc.Write(record(echoCall(8, procEcho, nil)))
	require.NoError(t, err)
	assert.Equal(t, echoReply(8, procEcho, nil), readRecord(t, nc))
}

func TestServerCutsTooLong(t *testing.T) {
	r := start(t, &Server{Handler: echoMux(), MaxRecord: 1000, Log: quiet()})
	for _, stream := range [][]byte{
		binary.BigEndian.AppendUint32(nil, lastFrag|1001),
		append(fragment(false, make([]byte, 1000)), 0, 0, 0, 1),
		{0x7f, 0xff, 0xff, 0xff},
	} {
		nc := r.dial()
		_, err := nc.Write(stream)
		require.NoError(t, err)
		_, err = nc.Read(make([]byte, 1))
		assert.Error(t, err) // end or reset, as the kernel likes
	}
	nc := r.dial()
	_, err := nc.Write(record(echoCall(1, procEcho, make([]byte, 900))))
	require.NoError(t, err)
	readRecord(t, nc)
}

func TestServerReplyTooLong(t *testing.T) {
	m := &Mux{Log: quiet()}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
		r.Head = append(r.Head, make([]byte, 1000)...)
		return nil
	}))
	nc := start(t, &Server{Handler: m, MaxRecord: 1000}).dial()
	_, err := nc.Write(record(call(1, testProg, 2, 1)))
	require.NoError(t, err)
	assert.Equal(t, appendAccepted(nil, 1, systemErr), readRecord(t, nc))
}

func TestServerPeer(t *testing.T) {
	m := new(Mux)
	peers := make(chan Peer, 1)
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error {
		peers <- *c.Peer
		return nil
	}))
	s := &Server{Handler: m}
	nc := start(t, s).dial()
	_, err := nc.Write(record(call(1, testProg, 2, 1)))
	require.NoError(t, err)
	readRecord(t, nc)
	assert.Equal(t, Peer{Addr: nc.LocalAddr().(*net.TCPAddr).AddrPort(), Network: "tcp"}, <-peers)

	mapped := &net.TCPAddr{IP: net.ParseIP("::ffff:10.0.2.15"), Port: 1023}
	assert.Equal(t, "tcp 10.0.2.15:1023", new(peerOf(addrConn{remote: mapped})).String())
}

// An addrConn is a connection of which only the peer's address is of interest.
type addrConn struct {
	net.Conn
	remote net.Addr
}

func (c addrConn) RemoteAddr() net.Addr { return c.remote }

// Many calls on many connections at once, answered in any order.
func TestServerConcurrent(t *testing.T) {
	r := start(t, &Server{Handler: echoMux()})
	var wg sync.WaitGroup
	for g := range 8 {
		nc := r.dial()
		const calls = 150
		size := func(xid uint32) int { return int(xid*xid*131) % (1 << (8 + g)) }
		wg.Go(func() {
			for xid := range uint32(calls) {
				_, err := nc.Write(record(echoCall(xid, procEcho, bytes.Repeat([]byte{byte(xid)}, size(xid)))))
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

// A gate is a program whose calls wait until the test lets them go.
type gate struct {
	running atomic.Int64
	most    atomic.Int64
	entered chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 1000), open: make(chan struct{})} }

func (g *gate) ServeRPC(ctx context.Context, c *Call, r *Reply) error {
	n := g.running.Add(1)
	defer g.running.Add(-1)
	for {
		most := g.most.Load()
		if n <= most || g.most.CompareAndSwap(most, n) {
			break
		}
	}
	g.entered <- struct{}{}
	select {
	case <-g.open:
		r.Head = xdr.AppendUint32(r.Head, c.XID)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gate) mux() *Mux {
	m := &Mux{Log: quiet()}
	m.Register(testProg, 2, g)
	return m
}

func TestServerBoundsCalls(t *testing.T) {
	g := newGate()
	nc := start(t, &Server{Handler: g.mux()}).dial()
	const calls = 3 * maxCalls
	for xid := range uint32(calls) {
		_, err := nc.Write(record(call(xid, testProg, 2, 1)))
		require.NoError(t, err)
	}
	for range maxCalls {
		<-g.entered
	}
	close(g.open)
	for range calls {
		readRecord(t, nc)
	}
	assert.EqualValues(t, maxCalls, g.most.Load())
}

// Calls under way are answered, calls behind them are not taken, and the end
// of the stream comes behind the answers, not a reset.
func TestShutdownDrains(t *testing.T) {
	g := newGate()
	r := start(t, &Server{Handler: g.mux()})
	busy, idle, half := r.dial(), r.dial(), r.dial()
	for xid := range uint32(3) {
		_, err := busy.Write(record(call(xid, testProg, 2, 1)))
		require.NoError(t, err)
		<-g.entered
	}
	for _, nc := range []net.Conn{idle, half} { // that the server has accepted
		_, err := nc.Write(record(call(8, testProg, 2, 0)))
		require.NoError(t, err)
		readRecord(t, nc)
	}
	_, err := half.Write(record(call(9, testProg, 2, 1))[:20]) // no call yet
	require.NoError(t, err)

	done := make(chan error, 1)
	go func() { done <- r.Shutdown(t.Context()) }()
	<-r.stop
	for _, nc := range []net.Conn{idle, half} {
		_, err := nc.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		nc.Close()
	}
	_, err = busy.Write(record(call(99, testProg, 2, 1)))
	require.NoError(t, err)
	_, err = net.Dial("tcp", r.addr)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	select {
	case err := <-done:
		t.Fatal("did not wait:", err)
	case <-g.entered:
		t.Fatal("a call was taken")
	default:
	}

	close(g.open)
	for range 3 {
		assert.Less(t, binary.BigEndian.Uint32(readRecord(t, busy)), uint32(3))
	}
	_, err = busy.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
	busy.Close()
	assert.NoError(t, <-done)
}

// Calls that came together with those under way wait in the read buffer, and
// are not taken from there either.
func TestShutdownLeavesBufferedCalls(t *testing.T) {
	g := newGate()
	r := start(t, &Server{Handler: g.mux()})
	nc := r.dial()
	var stream []byte
	for xid := range uint32(2 * maxCalls) {
		stream = append(stream, record(call(xid, testProg, 2, 1))...)
	}
	require.Less(t, len(stream), readBuffer)
	_, err := nc.Write(stream)
	require.NoError(t, err)
	for range maxCalls {
		<-g.entered
	}
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(t.Context()) }()
	<-r.stop
	r.mu.Lock() // Shutdown has it until all connections are drained
	for c := range r.conns {
		assert.Error(t, c.reading.Err())
	}
	r.mu.Unlock()
	close(g.open)
	for range maxCalls {
		readRecord(t, nc)
	}
	_, err = nc.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
	nc.Close()
	assert.NoError(t, <-done)
}

// What the reader does about its deadline does not undo drain.
func TestDrainIsFinal(t *testing.T) {
	s := new(Server)
	s.init()
	client, server := net.Pipe()
	defer client.Close()
	c := newTCPConn(s, server)
	defer c.abort(nil)
	c.drain()
	c.setReadDeadline(time.Time{})
	_, err := server.Read(make([]byte, 1))
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// A connection that is accepted while Shutdown runs is not served.
func TestAcceptedDuringShutdown(t *testing.T) {
	s := &Server{Handler: echoMux()}
	require.NoError(t, s.Shutdown(t.Context()))
	client, server := net.Pipe()
	s.addConn(server)
	_, err := client.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
	checkNothingLeft(t, s)
}

func TestShutdownForced(t *testing.T) {
	g := newGate()
	r := start(t, &Server{Handler: g.mux()})
	nc := r.dial()
	_, err := nc.Write(record(call(1, testProg, 2, 1)))
	require.NoError(t, err)
	<-g.entered
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("enough"))
	assert.EqualError(t, r.Shutdown(ctx), "enough")
	assert.Zero(t, g.running.Load(), "no handler runs")
	_, err = nc.Read(make([]byte, 1))
	assert.Error(t, err)
	assert.NoError(t, r.Shutdown(t.Context()), "again")
}

func TestServeAfterShutdown(t *testing.T) {
	s := &Server{Handler: echoMux()}
	require.NoError(t, s.Shutdown(t.Context()))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	assert.NoError(t, s.Serve(l))
	_, err = l.Accept()
	assert.ErrorIs(t, err, net.ErrClosed)
}

func TestServeRefusesMaxRecord(t *testing.T) {
	for _, n := range []int{-1, memory/2 + 1} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		assert.ErrorContains(t, (&Server{Handler: echoMux(), MaxRecord: n}).Serve(l), "MaxRecord")
		l.Close()
	}
}

// A peer that has sent all its calls still gets its answers.
func TestHalfClose(t *testing.T) {
	g := newGate()
	nc := start(t, &Server{Handler: g.mux()}).dial()
	for xid := range uint32(5) {
		_, err := nc.Write(record(call(xid, testProg, 2, 1)))
		require.NoError(t, err)
	}
	require.NoError(t, nc.CloseWrite())
	for range 5 {
		<-g.entered
	}
	close(g.open)
	for range 5 {
		readRecord(t, nc)
	}
	_, err := nc.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
}

// The calls of a peer that is gone are told so.
func TestReset(t *testing.T) {
	g := newGate()
	r := start(t, &Server{Handler: g.mux()})
	nc := r.dial()
	_, err := nc.Write(record(call(1, testProg, 2, 1)))
	require.NoError(t, err)
	<-g.entered
	require.NoError(t, nc.SetLinger(0))
	require.NoError(t, nc.Close())
	require.Eventually(t, func() bool { return g.running.Load() == 0 }, 5*time.Second, time.Millisecond)
}

func TestPanicDoesNotEndService(t *testing.T) {
	m := echoMux()
	m.Log = quiet()
	m.Register(nfs, 3, handlerFunc(func(context.Context, *Call, *Reply) error { panic("fault") }))
	nc := start(t, &Server{Handler: m}).dial()
	_, err := nc.Write(record(call(1, nfs, 3, 1)))
	require.NoError(t, err)
	assert.Equal(t, appendAccepted(nil, 1, systemErr), readRecord(t, nc))
	_, err = nc.Write(record(echoCall(2, procHead, nil)))
	require.NoError(t, err)
	assert.Equal(t, echoReply(2, procHead, nil), readRecord(t, nc))
}

func TestMaxConns(t *testing.T) {
	s := &Server{Handler: echoMux(), Log: quiet()}
	r := start(t, s)
	s.mu.Lock()
	var others []*tcpConn
	for range maxConns {
		a, b := net.Pipe()
		b.Close()
		others = append(others, newTCPConn(s, a))
		s.conns[others[len(others)-1]] = struct{}{}
	}
	s.mu.Unlock()
	_, err := r.dial().Read(make([]byte, 1))
	assert.Error(t, err, "one too many")
	for _, c := range others {
		c.abort(nil)
		s.removeConn(c)
	}
	nc := r.dial()
	_, err = nc.Write(record(echoCall(1, procEcho, nil)))
	require.NoError(t, err)
	readRecord(t, nc)
}
