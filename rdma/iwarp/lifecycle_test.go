package iwarp

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestStallIsOver checks that a socket which was full, and drained in time,
// keeps working after the stall limit.
func TestStallIsOver(t *testing.T) {
	checkLeaks(t)
	a, b := ncPair(t, false)
	shrinkBuffers(t, a, b)
	in := newInbox()
	s := newSocket(a)
	s.tcp.stall = 700 * time.Millisecond
	c := testDevice.newConn(s, mpa.Params{}, mpa.Frame{}, rdma.ConnConfig{Handler: in}, false)
	c.startReader()
	p := &rawPeer{t: t, nc: b}
	big, done := patternBytes(2<<20), make(completionWaiter, 2)
	require.NoError(t, c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{big}, Done: done}))
	for got := 0; got < len(big); {
		got += len(p.readSegment()) - 18
	}
	require.NoError(t, done.wait(t).Err)
	time.Sleep(s.tcp.stall + 100*time.Millisecond)
	require.NoError(t, c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{{1}}, Done: done}))
	require.NoError(t, done.wait(t).Err)
	p.readSegment()
	closed := runAsyncErr(c.Close)
	p.expectEOF()
	require.NoError(t, <-closed)
	require.ErrorIs(t, in.closeError(t), io.EOF)
}

// shrinkBuffers sets small socket buffers.
func shrinkBuffers(t testing.TB, ends ...any) {
	t.Helper()
	for _, end := range ends {
		switch end := end.(type) {
		case *net.TCPConn:
			require.NoError(t, end.SetReadBuffer(64<<10))
			require.NoError(t, end.SetWriteBuffer(64<<10))
		case *socket:
			if end.tcp == nil {
				continue
			}
			end.tcp.withFD(func(fd int) {
				require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 64<<10))
				require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 64<<10))
			})
		}
	}
}

// severConn closes e's connection below MPA.
func severConn(e endpoint) {
	if l := e.sock.tcp; l != nil {
		l.withFD(func(fd int) { _ = unix.Shutdown(fd, unix.SHUT_RDWR) })
		return
	}
	e.sock.close()
}

func runAsyncErr(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

// abortHandler aborts its connection when a message arrives.
type abortHandler struct {
	*inboxHandler
	c     *Conn
	cause error
}

func (h *abortHandler) Receive(m rdma.Recv) {
	m.Buf.Release()
	h.c.Abort(h.cause)
}

// TestAbortBeforeFault checks that Abort does not wait, even if the stream also
// has an error that would cause a Terminate.
func TestAbortBeforeFault(t *testing.T) {
	checkLeaks(t)
	cause := errors.New("enough")
	e, p := connectRaw(t, rawOptions{recvs: 1, before: func(c *Conn) {
		c.handler = &abortHandler{c.handler.(*inboxHandler), c, cause}
	}})
	start := time.Now()
	p.sendSegments(sendSeg(true, 1, 0, nil), sendSeg(true, 9, 0, nil))
	require.ErrorIs(t, e.inbox.closeError(t), cause)
	assert.Less(t, time.Since(start), lingerTimeout/2)
}

// TestAbortIsReset checks that Abort resets the TCP connection, even if Close
// follows: the peer must learn that some messages were not processed.
func TestAbortIsReset(t *testing.T) {
	cause := errors.New("enough")
	ends := map[string]func(c *Conn){
		"Abort": func(c *Conn) { c.Abort(cause) },
		"Abort, Close": func(c *Conn) {
			c.Abort(cause)
			_ = c.Close()
		},
	}
	for name, end := range ends {
		for range 10 { // events come in different orders
			t.Run(name, func(t *testing.T) {
				checkLeaks(t)
				a, b := connectPair(t, pairOptions{})
				end(a.Conn)
				require.ErrorIs(t, b.inbox.closeError(t), unix.ECONNRESET)
			})
		}
	}
}

// TestTerminateWhereBothAreFull checks that a peer which does not read before
// it has written everything, and possibly its FIN, still receives the
// Terminate. This end keeps reading while it waits to write, and until the peer
// has closed its half too (R5040-6.2.1-4).
func TestTerminateWhereBothAreFull(t *testing.T) {
	for _, o := range []struct{ pipe, fin bool }{{false, false}, {false, true}, {true, false}} {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{pipe: o.pipe})
		shrinkBuffers(t, e.sock, p.nc)
		mem := patternBytes(2 << 20)
		r, err := e.Register(mem, rdma.RemoteRead)
		require.NoError(t, err)
		p.sendSegments(requestSeg(1, rdmap.ReadRequest{Size: uint32(len(mem)), SourceSTag: r.STag()}))
		p.sendSegments(sendSeg(true, 1, 0, nil)) // no buffer
		p.writeBytes(make([]byte, 1<<20))        // R5041-7.1-4: dropped
		if o.fin {
			require.NoError(t, p.nc.(*net.TCPConn).CloseWrite())
			time.Sleep(10 * time.Millisecond) // so that the FIN is seen
		}
		at := 0
		segment := p.readSegment()
		for ; segment[0]&0x80 != 0; segment = p.readSegment() {
			at += len(segment) - 14
		}
		assert.Less(t, at, len(mem))
		assert.Equal(t, rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: 2}, parseTerminate(t, segment).Cause)
		p.expectEOF()
		e.inbox.closeError(t)
	}
}

// TestEndOfStream checks that the stream may end gracefully only between
// messages.
func TestEndOfStream(t *testing.T) {
	whole := frameFPDU(false, sendSeg(true, 1, 0, []byte("abc")))
	for name, tt := range map[string]struct {
		bytes []byte
		want  error
	}{
		"nothing":                {nil, io.EOF},
		"between messages":       {whole, io.EOF},
		"within the length":      {append(whole[:len(whole):len(whole)], 0), io.ErrUnexpectedEOF},
		"within the header":      {whole[:5], io.ErrUnexpectedEOF},
		"within the payload":     {whole[:21], io.ErrUnexpectedEOF},
		"within the CRC":         {whole[:len(whole)-1], io.ErrUnexpectedEOF},
		"within a Send":          {frameFPDU(false, sendSeg(false, 1, 0, []byte("abc"))), io.ErrUnexpectedEOF},
		"within a Read Response": {frameFPDU(false, responseSeg(false, 0, 1<<32, []byte("abc"))), io.ErrUnexpectedEOF},
		"within a Terminate":     {frameFPDU(false, rdmap.AppendUntagged(nil, rdmap.OpTerminate, false, 0, 1, 0)), io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true, recvs: 2})
			done := make(completionWaiter, 1)
			if name == "within a Read Response" {
				require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 9)}, Done: done}))
				req := p.expectReadRequest()
				tt.bytes = frameFPDU(false, responseSeg(false, req.SinkSTag, req.SinkTO, []byte("abc")))
			}
			p.writeBytes(tt.bytes)
			require.NoError(t, p.nc.(*net.TCPConn).CloseWrite())
			assert.Equal(t, tt.want, e.inbox.closeError(t))
			if tt.want == io.EOF {
				p.expectEOF()
			} else {
				p.expectReset()
			}
		})
	}
}

// TestPeerHalfCloses checks that a peer which has closed its half still
// receives its Read Response (R5041-6.2.1-4, R5041-6.2.1-5).
func TestPeerHalfCloses(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{})
	shrinkBuffers(t, e.sock, p.nc)
	mem, done := patternBytes(1<<20), make(completionWaiter, 1)
	r, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	p.sendSegments(requestSeg(1, rdmap.ReadRequest{Size: uint32(len(mem)), SourceSTag: r.STag()}))
	require.NoError(t, p.nc.(*net.TCPConn).CloseWrite())
	_, got := p.readResponse()
	assert.Equal(t, mem, got)
	p.expectEOF()
	require.ErrorIs(t, e.inbox.closeError(t), io.EOF)
	assert.ErrorIs(t, e.Post(rdma.WR{Done: done}), rdma.ErrClosed)
	assert.Empty(t, done)
	r.Deregister()
}
