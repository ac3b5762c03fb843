package oncrpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A gatedProgram is a program whose calls wait until the test releases them.
type gatedProgram struct {
	running atomic.Int64
	most    atomic.Int64
	entered chan struct{}
	open    chan struct{}
}

func newGate() *gatedProgram {
	return &gatedProgram{entered: make(chan struct{}, 1000), open: make(chan struct{})}
}

func (g *gatedProgram) ServeRPC(ctx context.Context, c *Call, r *Reply) error {
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

func (g *gatedProgram) newMux() *Mux {
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, g)
	return m
}

func TestServerBoundsCalls(t *testing.T) {
	g := newGate()
	nc := startServer(t, &Server{Handler: g.newMux()}).dialServer()
	const calls = 3 * maxCalls
	for xid := range uint32(calls) {
		_, err := nc.Write(newRecord(newCallMessage(xid, testProg, 2, 1)))
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

// TestShutdownDrains checks that calls in flight are answered, later calls are not taken,
// and the end of the stream, not a reset, follows the replies.
func TestShutdownDrains(t *testing.T) {
	g := newGate()
	r := startServer(t, &Server{Handler: g.newMux()})
	busy, idle, half := r.dialServer(), r.dialServer(), r.dialServer()
	for xid := range uint32(3) {
		_, err := busy.Write(newRecord(newCallMessage(xid, testProg, 2, 1)))
		require.NoError(t, err)
		<-g.entered
	}
	for _, nc := range []net.Conn{idle, half} { // makes sure that the server has accepted both
		_, err := nc.Write(newRecord(newCallMessage(8, testProg, 2, 0)))
		require.NoError(t, err)
		readRecord(t, nc)
	}
	_, err := half.Write(newRecord(newCallMessage(9, testProg, 2, 1))[:20]) // not a whole call
	require.NoError(t, err)

	done := make(chan error, 1)
	go func() { done <- r.Shutdown(t.Context()) }()
	<-r.stopping
	for _, nc := range []net.Conn{idle, half} {
		_, err := nc.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		nc.Close()
	}
	_, err = busy.Write(newRecord(newCallMessage(99, testProg, 2, 1)))
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

// TestShutdownLeavesBufferedCalls checks that calls in the read buffer, behind those in
// progress, are not taken either.
func TestShutdownLeavesBufferedCalls(t *testing.T) {
	g := newGate()
	r := startServer(t, &Server{Handler: g.newMux()})
	nc := r.dialServer()
	var stream []byte
	for xid := range uint32(2 * maxCalls) {
		stream = append(stream, newRecord(newCallMessage(xid, testProg, 2, 1))...)
	}
	require.Less(t, len(stream), readBuffer)
	_, err := nc.Write(stream)
	require.NoError(t, err)
	for range maxCalls {
		<-g.entered
	}
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(t.Context()) }()
	<-r.stopping
	r.mu.Lock() // held by Shutdown until all connections are drained
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

// TestDrainIsFinal checks that the reader's deadline does not undo drain.
func TestDrainIsFinal(t *testing.T) {
	s := new(Server)
	s.init()
	client, server := net.Pipe()
	defer client.Close()
	c := newTCPConn(s, server, s.parties.Enter(server.RemoteAddr()))
	defer c.abort(nil)
	c.drain()
	c.setReadDeadline(time.Time{})
	_, err := server.Read(make([]byte, 1))
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// TestAcceptedDuringShutdown checks that a connection accepted during Shutdown
// is not served.
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
	r := startServer(t, &Server{Handler: g.newMux()})
	nc := r.dialServer()
	_, err := nc.Write(newRecord(newCallMessage(1, testProg, 2, 1)))
	require.NoError(t, err)
	<-g.entered
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("enough"))
	assert.EqualError(t, r.Shutdown(ctx), "enough")
	_, err = nc.Read(make([]byte, 1))
	assert.Error(t, err)
	assert.NoError(t, r.Shutdown(t.Context()), "again")
	assert.Zero(t, g.running.Load(), "no handler runs")
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
	for _, n := range []int{-1, memoryLimit/2 + 1} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		assert.ErrorContains(t, (&Server{Handler: echoMux(), MaxRecord: n}).Serve(l), "MaxRecord")
		l.Close()
	}
}

// TestHalfClose checks that a peer that has closed its half of the stream still
// gets its replies.
func TestHalfClose(t *testing.T) {
	g := newGate()
	nc := startServer(t, &Server{Handler: g.newMux()}).dialServer()
	for xid := range uint32(5) {
		_, err := nc.Write(newRecord(newCallMessage(xid, testProg, 2, 1)))
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

// TestReset checks that a reset cancels the context of the peer's calls.
func TestReset(t *testing.T) {
	g := newGate()
	r := startServer(t, &Server{Handler: g.newMux()})
	nc := r.dialServer()
	_, err := nc.Write(newRecord(newCallMessage(1, testProg, 2, 1)))
	require.NoError(t, err)
	<-g.entered
	require.NoError(t, nc.SetLinger(0))
	require.NoError(t, nc.Close())
	require.Eventually(t, func() bool { return g.running.Load() == 0 }, 5*time.Second, time.Millisecond)
}

func TestPanicDoesNotEndService(t *testing.T) {
	m := echoMux()
	m.Log = discardLogger()
	m.Register(nfs, 3, handlerFunc(func(context.Context, *Call, *Reply) error { panic("fault") }))
	nc := startServer(t, &Server{Handler: m}).dialServer()
	_, err := nc.Write(newRecord(newCallMessage(1, nfs, 3, 1)))
	require.NoError(t, err)
	assert.Equal(t, rpcmsg.AppendAccepted(nil, 1, rpcmsg.SystemErr), readRecord(t, nc))
	_, err = nc.Write(newRecord(echoCall(2, procHead, nil)))
	require.NoError(t, err)
	assert.Equal(t, echoReply(2, procHead, nil), readRecord(t, nc))
}

func TestMaxConns(t *testing.T) {
	g := newGate()
	r := startServer(t, &Server{Handler: g.newMux(), MaxConns: 1, Log: discardLogger()})
	first := r.dialServer()
	_, err := first.Write(newRecord(newCallMessage(1, testProg, 2, 1)))
	require.NoError(t, err)
	<-g.entered
	_, err = r.dialServer().Read(make([]byte, 1))
	assert.Error(t, err, "one too many")
	close(g.open)
	readRecord(t, first)
	require.NoError(t, first.CloseWrite())
	_, err = first.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	require.Eventually(t, func() bool { // the stream ends before the place is free
		nc := r.dialServer()
		_, err := nc.Write(newRecord(newCallMessage(2, testProg, 2, 1)))
		if err == nil {
			_, err = nc.Read(make([]byte, 1))
		}
		return err == nil
	}, time.Minute, time.Millisecond)
}
