package iwarp

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestReadCutShort checks that a peer which invalidates its own Read's source
// receives no more data, but a Terminate that names what it did not get. The
// Send was delivered, and from then on the memory may be used for other
// purposes.
func TestReadCutShort(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{pipe: true, recvs: 1})
	mem, other := patternBytes(4<<20), patternBytes(5)
	r, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	before, err := e.Register(other, rdma.RemoteRead)
	require.NoError(t, err)
	asked := rdmap.ReadRequest{SinkSTag: 7, SinkTO: 1 << 40, Size: uint32(len(mem)) - 3, SourceSTag: r.STag(), SourceTO: 3}
	request := requestSeg(2, asked)
	request[1] |= 0x30 // reserved bits; the Terminate returns them unchanged
	p.sendSegments(requestSeg(1, rdmap.ReadRequest{Size: 5, SourceSTag: before.STag()}), request)
	_, got := p.readResponse()
	assert.Equal(t, other, got)
	first := p.readSegment() // the first batch is being written
	p.sendSegments(invalidateSeg(1, r.STag(), []byte("done")))
	assert.Equal(t, "done", string(e.inbox.nextMessage(t))) // R5040-5.5-18-1: before the Read has its response

	at := 0
	segment := first
	for ; segment[0]&0x80 != 0; segment = p.readSegment() {
		require.Zero(t, segment[0]&0x40, "the last segment")
		require.Equal(t, mem[3+at:][:len(segment)-ddp.TaggedLen], segment[ddp.TaggedLen:])
		at += len(segment) - ddp.TaggedLen
	}
	require.Less(t, at, len(mem)/2)
	term := parseTerminate(t, segment)
	assert.Equal(t, rdmap.ErrInvalidSTag, term.Cause)
	assert.EqualValues(t, len(request), term.SegmentLen)
	assert.Equal(t, request[:ddp.UntaggedLen], term.DDPHeader)
	left, err := rdmap.ParseReadRequest(term.RDMAPHeader)
	require.NoError(t, err)
	assert.Equal(t, rdmap.ReadRequest{ // R5040-4.8-22
		SinkSTag: 7, SinkTO: 1<<40 + uint64(at), Size: asked.Size - uint32(at),
		SourceSTag: r.STag(), SourceTO: 3 + uint64(at),
	}, left)
	p.expectEOF()
	requireFault(t, e.inbox.closeError(t), false, rdmap.ErrInvalidSTag)
	r.Deregister()
}

// TestReadCutShortAtOnce checks that a Read which waits behind another can be
// cut short before its first byte. The Terminate then returns the request
// unchanged.
func TestReadCutShortAtOnce(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{pipe: true, recvs: 1})
	mem := patternBytes(4 << 20)
	first, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	second, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	request := requestSeg(2, rdmap.ReadRequest{SinkSTag: 7, SinkTO: 1, Size: 9, SourceSTag: second.STag(), SourceTO: 2})
	p.sendSegments(requestSeg(1, rdmap.ReadRequest{Size: uint32(len(mem)), SourceSTag: first.STag()}), request)
	segment := p.readSegment()
	p.sendSegments(invalidateSeg(1, second.STag(), nil))
	for ; segment[0]&0x80 != 0; segment = p.readSegment() {
		require.Zero(t, segment[0]&0x40)
	}
	term := parseTerminate(t, segment)
	assert.Equal(t, request, bytes.Join([][]byte{term.DDPHeader, term.RDMAPHeader}, nil)) // R5040-4.8-21
	p.expectEOF()
	requireFault(t, e.inbox.closeError(t), false, rdmap.ErrInvalidSTag)
}

// TestReadThenInvalidate checks that a peer which has received a whole response
// may invalidate the source, and that the connection continues.
func TestReadThenInvalidate(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{recvs: 2})
	mem := patternBytes(1 << 20)
	r, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	p.sendSegments(requestSeg(1, rdmap.ReadRequest{Size: uint32(len(mem)), SourceSTag: r.STag()}))
	_, got := p.readResponse()
	assert.Equal(t, mem, got)
	p.sendSegments(invalidateSeg(1, r.STag(), nil), sendSeg(true, 2, 0, []byte("on")))
	e.inbox.nextMessage(t)
	assert.Equal(t, "on", string(e.inbox.nextMessage(t)))
}
