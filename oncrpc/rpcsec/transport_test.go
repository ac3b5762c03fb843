package rpcsec

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// serveTCP serves the rig over TCP, and returns a function that connects to it.
func (r *testServer) serveTCP(t *testing.T) (dial func() net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &oncrpc.Server{Handler: r.Server, Log: discardLogger(), MaxRecord: 4 << 20}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	return func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// sendOverTCP sends a message over a TCP connection. It returns nil if the server ends
// the connection.
func sendOverTCP(t *testing.T, c net.Conn, msg []byte) []byte {
	t.Helper()
	_, err := c.Write(append(appendWords(1<<31|uint32(len(msg))), msg...))
	require.NoError(t, err)
	var mark [4]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		return nil
	}
	b := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
	_, err = io.ReadFull(c, b)
	require.NoError(t, err)
	return b
}

// TestTCP checks calls over TCP: a recorded call ends its connection, and the
// retry on another connection gets the kept reply under a new verifier.
func TestTCP(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	dial := r.serveTCP(t)
	c := dial()
	u, _ := readInit(t, sendOverTCP(t, c, initCall(1, "alice 1")), "alice 1")
	u.r = r
	xid := uint32(100)
	for _, service := range services {
		for _, n := range []int{0, 5, 5000, 1 << 20} {
			for _, proc := range []uint32{procHead, procEcho, procMore} {
				xid++
				data := bytes.Repeat([]byte{1}, n)
				stat, results := u.checkReply(sendOverTCP(t, c, u.newCall(xid, proc, service, opaqueArgs(data))), xid, u.seq, service)
				assert.Zero(t, stat)
				assert.True(t, bytes.HasPrefix(results, opaqueArgs(data)))
			}
		}
		xid++
		ran := r.program.executed.Load()
		msg := u.newCall(xid, procMake, service, opaqueArgs([]byte("data")))
		assert.NotNil(t, sendOverTCP(t, c, msg))
		assert.Nil(t, sendOverTCP(t, c, msg), "R2203-5.3.3.1-3, the connection is cut")
		c = dial()
		_, results := u.checkReply(sendOverTCP(t, c, u.newCall(xid, procMake, service, opaqueArgs([]byte("data")))), xid, u.seq, service)
		assert.Equal(t, appendWords(ran+1), results, "R2203-5.3.3.1-6")
		assert.Equal(t, ran+1, r.program.executed.Load())
	}
}

// A rdmaRequester is the client's end of an RDMA connection.
type rdmaRequester struct {
	*rdmatest.Conn
	t *testing.T

	mu     sync.Mutex
	got    []wire.Header
	bodies [][]byte
	ended  bool
}

func (q *rdmaRequester) Receive(m rdma.Recv) {
	defer m.Buf.Release()
	var h wire.Header
	msg := bytes.Clone(m.Buf.B)
	h.ParseFixed(msg)
	body, err := h.Lists.Parse(msg[wire.FixedLen:])
	assert.NoError(q.t, err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.got, q.bodies = append(q.got, h), append(q.bodies, body)
}

func (q *rdmaRequester) Closed(error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
}

// serveRDMA serves the rig over RDMA, in a bubble.
func (r *testServer) serveRDMA(t *testing.T) (dial func() *rdmaRequester) {
	l := rdmatest.Listen(t)
	s := &rpcrdma.Server{Handler: r.Server, Log: discardLogger()}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	return func() *rdmaRequester {
		q := &rdmaRequester{t: t}
		private := cmpriv.Message{SendSize: 4096, RecvSize: 4096}
		c, err := l.Dial(t.Context(), rdma.ConnConfig{Handler: q, PrivateData: private.AppendTo(nil), RecvSize: 4096, Recvs: 1 << 16})
		require.NoError(t, err)
		q.Conn = c
		return q
	}
}

func (q *rdmaRequester) registerSegment(b []byte, access rdma.Access) chunks.Segment {
	r, err := q.Register(b, access)
	require.NoError(q.t, err)
	return chunks.Segment{Handle: uint32(r.STag()), Length: uint32(len(b)), Offset: r.TO()}
}

// callRDMA sends a call: by a Read chunk at position zero if it is long. Position and
// item are those of a data item apart. reply is the memory of the Reply chunk.
func (q *rdmaRequester) callRDMA(msg []byte, l chunks.Lists, reply []byte) (wire.Header, []byte) {
	q.t.Helper()
	h := wire.Header{XID: binary.BigEndian.Uint32(msg), Vers: wire.Version, Credit: 128, Proc: wire.Msg, Lists: l}
	if len(msg) > 3000 {
		h.Proc = wire.NoMsg
		h.Lists.Reads = append(h.Lists.Reads, chunks.ReadSegment{Segment: q.registerSegment(msg, rdma.RemoteRead)})
		msg = nil
	}
	if reply != nil {
		h.Lists.HasReply, h.Lists.Reply = true, chunks.Chunk{q.registerSegment(reply, rdma.RemoteWrite)}
	}
	require.NoError(q.t, q.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{h.AppendTo(nil), msg}}))
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.got) == 0 {
		return wire.Header{}, nil
	}
	h, body := q.got[0], q.bodies[0]
	q.got, q.bodies = nil, nil
	if h.Proc == wire.NoMsg {
		body = reply[:h.Lists.Reply.Length()]
	}
	return h, body
}

// TestRDMA checks calls over RDMA in a context that was made over TCP. Signed or
// encrypted data is never in a chunk of its own: a Write chunk returns unused.
func TestRDMA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestServer(t, ServerConfig{})
		u := r.establishContext("alice 1") // R2203-5.4-3
		dial := r.serveRDMA(t)
		q := dial()
		xid := uint32(100)
		for _, service := range services {
			for _, n := range []int{0, 5, 500, 65536, 262144} {
				xid++
				data := bytes.Repeat([]byte("plain data"), n/10+1)[:n]
				sink, reply := make([]byte, n+100), make([]byte, n+600)
				var l chunks.Lists
				l.AddWrite(chunks.Chunk{q.registerSegment(sink, rdma.RemoteWrite)})
				h, body := q.callRDMA(u.newCall(xid, procEcho, service, opaqueArgs(data)), l, reply)
				require.NotEqual(t, wire.Error, h.Proc)
				require.Equal(t, 1, h.Lists.Writes())
				stat, results := u.checkReply(body, xid, u.seq, service)
				require.Zero(t, stat)
				if service == serviceNone {
					assert.EqualValues(t, n, h.Lists.Write(0).Length(), "R2203-RDMA-2")
					assert.True(t, bytes.Equal(data, sink[:n]))
					assert.Equal(t, append(appendWords(uint32(n)), echoTail...), results)
					continue
				}
				assert.Zero(t, h.Lists.Write(0).Length(), "R2203-RDMA-5, R8166-8.2.2.3-1")
				assert.True(t, bytes.Equal(make([]byte, len(sink)), sink), "R2203-RDMA-1")
				assert.True(t, bytes.Equal(append(opaqueArgs(data), echoTail...), results))
				assert.Equal(t, n > 3000, h.Proc == wire.NoMsg)
			}
			xid++
			ran := r.program.executed.Load()
			msg := u.newCall(xid, procMake, service, opaqueArgs([]byte("data")))
			recorded := bytes.Clone(msg)
			_, body := q.callRDMA(msg, chunks.Lists{}, nil)
			assert.NotNil(t, body)
			_, body = q.callRDMA(recorded, chunks.Lists{}, nil)
			assert.Nil(t, body)
			assert.True(t, q.ended, "R2203-5.3.3.1-3, the connection is cut")
			q = dial()
			_, body = q.callRDMA(u.newCall(xid, procMake, service, opaqueArgs([]byte("data"))), chunks.Lists{}, nil)
			_, results := u.checkReply(body, xid, u.seq, service)
			assert.Equal(t, appendWords(ran+1), results, "R2203-5.3.3.1-6")
			assert.Equal(t, ran+1, r.program.executed.Load())
		}
	})
}

// TestRDMAItem checks a call whose data item is in a Read chunk: its position
// counts from the XID, over the longer header.
func TestRDMAItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestServer(t, ServerConfig{})
		u := r.establishContext("alice 1")
		q := r.serveRDMA(t)()
		for _, service := range services {
			data := bytes.Repeat([]byte{7}, 10000)
			args := appendWords(uint32(len(data)))
			msg := u.newCall(7, procHead, service, args)
			l := chunks.Lists{Reads: []chunks.ReadSegment{{Position: uint32(len(msg)), Segment: q.registerSegment(data, rdma.RemoteRead)}}}
			_, body := q.callRDMA(msg, l, make([]byte, 20000))
			stat, results := u.checkReply(body, 7, u.seq, serviceNone)
			if service == serviceNone {
				assert.Zero(t, stat)
				assert.Equal(t, opaqueArgs(data), results, "R2203-RDMA-2, R8166-8.2.2-1")
			} else {
				assert.EqualValues(t, rpcmsg.GarbageArgs, stat, "R8166-8.2.2.3-1")
			}
		}
	})
}

// TestNoRoom checks that a reply that does not fit next to a Write chunk is not
// put into the Write chunk.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestServer(t, ServerConfig{})
		u := r.establishContext("alice 1")
		q := r.serveRDMA(t)()
		sink := make([]byte, 65536)
		var l chunks.Lists
		l.AddWrite(chunks.Chunk{q.registerSegment(sink, rdma.RemoteWrite)})
		_, body := q.callRDMA(u.newCall(7, procEcho, servicePrivacy, opaqueArgs(make([]byte, 10000))), l, nil)
		stat, _ := u.checkReply(body, 7, u.seq, servicePrivacy)
		assert.NotZero(t, stat)
		assert.Equal(t, make([]byte, 65536), sink)
	})
}
