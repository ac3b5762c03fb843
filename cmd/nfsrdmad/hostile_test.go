package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	rpcwire "github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeEchoService answers a call with its data item, or with an item of its own.
type fakeEchoService struct{ hold chan struct{} }

func (m fakeEchoService) Serve(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	if m.hold != nil {
		<-m.hold
	}
	rep.Head = append(rep.Head, req.Msg[:4]...)
	rep.Head = append(rep.Head, make([]byte, 20)...)
	item := req.Item
	if item == nil {
		item = []byte("item")
	}
	copy(rep.NewItem(len(item)), item)
	return true
}

// startRDMAServer runs a server over iWARP on the loopback, and returns its address.
func startRDMAServer(t *testing.T, d *iwarp.Device, s *rpcrdma.Server) string {
	t.Helper()
	world := countResources(t)
	l, err := d.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
		world.assertReleased(t)
	})
	return l.Addr().String()
}

// A fakeRequester is a requester that is free to break the rules.
type fakeRequester struct {
	rdma.Conn
	t         *testing.T
	received  chan []byte
	closedErr chan error
}

func dialFakeRequester(t *testing.T, addr string, cfg iwarp.Config) *fakeRequester {
	t.Helper()
	p := &fakeRequester{t: t, received: make(chan []byte, 100), closedErr: make(chan error, 1)}
	c, err := iwarp.Open(cfg).Dial(t.Context(), addr, rdma.ConnConfig{
		Handler: p, Recvs: 1000,
		PrivateData: cmpriv.Message{RemoteInvalidation: true, SendSize: 4096, RecvSize: 4096}.AppendTo(nil),
	})
	require.NoError(t, err)
	p.Conn = c
	t.Cleanup(func() { c.Close() })
	return p
}

func (p *fakeRequester) Receive(m rdma.Recv) {
	p.received <- bytes.Clone(m.Buf.B)
	m.Buf.Release()
}
func (p *fakeRequester) Closed(err error) { p.closedErr <- err }

// sendCall sends a call with chunks.
func (p *fakeRequester) sendCall(xid uint32, l chunks.Lists) {
	h := rpcwire.Header{XID: xid, Vers: rpcwire.Version, Credit: 7, Lists: l}
	wire := append(h.AppendTo(nil), encodeCall(xid, 1, 1, 1, nil)...)
	require.NoError(p.t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{wire}}))
}

// receiveReply returns the procedure of the next answer, and the code of an
// RDMA_ERROR.
func (p *fakeRequester) receiveReply(xid uint32) (rpcwire.Proc, rpcwire.ErrCode) {
	p.t.Helper()
	select {
	case got := <-p.received:
		word := func(i int) uint32 { return binary.BigEndian.Uint32(got[4*i:]) }
		assert.Equal(p.t, xid, word(0))
		return rpcwire.Proc(word(3)), rpcwire.ErrCode(word(4))
	case err := <-p.closedErr:
		require.FailNow(p.t, "ended instead of an answer", "%v", err)
	case <-time.After(10 * time.Second):
		require.FailNow(p.t, "no answer")
	}
	panic("unreachable")
}

// assertServed checks that the next answer is no error.
func (p *fakeRequester) assertServed(xid uint32) {
	p.t.Helper()
	proc, _ := p.receiveReply(xid)
	assert.Equal(p.t, rpcwire.Msg, proc)
}

func (p *fakeRequester) waitClosed() error {
	p.t.Helper()
	select {
	case err := <-p.closedErr:
		return err
	case <-time.After(10 * time.Second):
		require.FailNow(p.t, "the connection continues")
	}
	panic("unreachable")
}

// registerSegment registers memory.
func (p *fakeRequester) registerSegment(b []byte, access rdma.Access) chunks.Segment {
	p.t.Helper()
	r, err := p.Register(b, access)
	require.NoError(p.t, err)
	return chunks.Segment{Handle: uint32(r.STag()), Length: uint32(len(b)), Offset: r.TO()}
}

// TestUnreachableChunks checks that a chunk that the server must not access
// ends the peer's connection with a Terminate, and no other connection. The
// repeated call gets ERR_CHUNK (R8166-4.5.3-2). Memory registered with one
// connection cannot be used on another (R8166-8.1.1-1, R8166-8.1-2).
func TestUnreachableChunks(t *testing.T) {
	addr := startRDMAServer(t, iwarp.Open(iwarp.Config{}), &rpcrdma.Server{Handler: fakeEchoService{}})
	other := dialFakeRequester(t, addr, iwarp.Config{})
	theirs := other.registerSegment(make([]byte, 4), rdma.RemoteRead|rdma.RemoteWrite)
	read := func(s chunks.Segment) chunks.Lists {
		return chunks.Lists{Reads: []chunks.ReadSegment{{Position: 40, Segment: s}}}
	}
	write := func(s chunks.Segment) (l chunks.Lists) {
		l.AddWrite(chunks.Chunk{s})
		return l
	}
	xid := uint32(100)
	for name, offer := range map[string]func(p *fakeRequester) chunks.Lists{
		"unknown STag to read":    func(*fakeRequester) chunks.Lists { return read(chunks.Segment{Handle: 0xbad, Length: 4}) },
		"unknown STag to write":   func(*fakeRequester) chunks.Lists { return write(chunks.Segment{Handle: 0xbad, Length: 4}) },
		"a foreign STag to read":  func(*fakeRequester) chunks.Lists { return read(theirs) },
		"a foreign STag to write": func(*fakeRequester) chunks.Lists { return write(theirs) },
		"more than the region has": func(p *fakeRequester) chunks.Lists {
			s := p.registerSegment(make([]byte, 4), rdma.RemoteRead)
			s.Length++
			return read(s)
		},
		"less than it says, to write": func(p *fakeRequester) chunks.Lists {
			s := p.registerSegment(make([]byte, 3), rdma.RemoteWrite)
			s.Length++
			return write(s)
		},
		"not to be written": func(p *fakeRequester) chunks.Lists { return write(p.registerSegment(make([]byte, 4), rdma.RemoteRead)) },
	} {
		t.Run(name, func(t *testing.T) {
			xid++
			p := dialFakeRequester(t, addr, iwarp.Config{})
			p.sendCall(xid, offer(p))
			var fault *iwarp.Fault
			require.ErrorAs(t, p.waitClosed(), &fault)
			assert.False(t, fault.Remote, "the peer detects it")

			again := dialFakeRequester(t, addr, iwarp.Config{})
			require.Eventually(t, func() bool { // the server may not yet know the cause of the other's end
				again.sendCall(xid, chunks.Lists{})
				proc, code := again.receiveReply(xid)
				return proc == rpcwire.Error && code == rpcwire.ErrChunk
			}, 10*time.Second, time.Millisecond)
			again.sendCall(xid, chunks.Lists{})
			again.assertServed(xid)
			other.sendCall(1, chunks.Lists{})
			other.assertServed(1)
		})
	}
}

// TestOverrunTerminates checks that calls beyond the granted credits end the
// connection with a Terminate of that error, and no other connection
// (R8166-3.3.1-1).
func TestOverrunTerminates(t *testing.T) {
	hold := make(chan struct{})
	addr := startRDMAServer(t, iwarp.Open(iwarp.Config{}), &rpcrdma.Server{Handler: fakeEchoService{hold}, Credits: 7})
	p, other := dialFakeRequester(t, addr, iwarp.Config{}), dialFakeRequester(t, addr, iwarp.Config{})
	other.sendCall(1, chunks.Lists{})
	for xid := range uint32(7 + 8 + 1) {
		p.sendCall(xid, chunks.Lists{})
	}
	err := p.waitClosed()
	var fault *iwarp.Fault
	require.ErrorAs(t, err, &fault)
	assert.True(t, fault.Remote)
	assert.Equal(t, rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: 2}, fault.Terminate.Cause, "no buffer")
	assert.False(t, errors.As(err, new(rdma.AccessError)))
	close(hold)
	other.assertServed(1)
}

// TestTooLongTerminates checks that a message too long for any receive ends the
// connection.
func TestTooLongTerminates(t *testing.T) {
	addr := startRDMAServer(t, iwarp.Open(iwarp.Config{}), &rpcrdma.Server{Handler: fakeEchoService{}})
	p, other := dialFakeRequester(t, addr, iwarp.Config{}), dialFakeRequester(t, addr, iwarp.Config{})
	require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{make([]byte, 4097)}}))
	var fault *iwarp.Fault
	require.ErrorAs(t, p.waitClosed(), &fault)
	assert.True(t, fault.Remote)
	other.sendCall(1, chunks.Lists{})
	other.assertServed(1)
}

// TestManyReadsOneAtATime checks R8166-3.3.1-9 and R8166-2.3.2-2: a chunk may
// have many more segments than RDMA Reads may be outstanding, and written data
// arrive before the reply.
func TestManyReadsOneAtATime(t *testing.T) {
	one := iwarp.Config{IRD: 1, ORD: 1}
	addr := startRDMAServer(t, iwarp.Open(one), &rpcrdma.Server{Handler: fakeEchoService{}})
	p := dialFakeRequester(t, addr, one)
	require.Equal(t, 1, p.Conn.(*iwarp.Conn).Params().IRD)
	data := bytes.Repeat([]byte("0123456"), 20)
	back := make([]byte, len(data))
	whole := p.registerSegment(data, rdma.RemoteRead)
	var l chunks.Lists
	for i := range data {
		l.Reads = append(l.Reads, chunks.ReadSegment{Position: 40, Segment: chunks.Segment{
			Handle: whole.Handle, Length: 1, Offset: whole.Offset + uint64(i),
		}})
	}
	l.AddWrite(chunks.Chunk{p.registerSegment(back, rdma.RemoteWrite)})
	p.sendCall(1, l)
	p.assertServed(1)
	assert.Equal(t, string(data), string(back))
}
