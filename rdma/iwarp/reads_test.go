package iwarp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestReadAgainAtOnce checks that a peer may send its next Read Request as soon
// as it has the whole response.
func TestReadAgainAtOnce(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{pipe: true, ird: 1})
	mem := patternBytes(100)
	r, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	for i := range uint32(1000) { // R5040-6.1-3
		p.sendSegments(requestSeg(i+1, rdmap.ReadRequest{SinkSTag: 5, SinkTO: uint64(i), Size: 100, SourceSTag: r.STag()}))
		h, got := p.readResponse()
		require.Equal(t, rdma.STag(5), h.STag) // R5040-4.4-3
		require.Equal(t, uint64(i), h.TO)      // R5040-4.4-4
		require.Equal(t, mem, got)
	}
	r.Deregister()
}

// TestReadResponseWithoutBytes checks that an empty message's STag and TO are
// not checked, and that any message's last segment may be empty.
func TestReadResponseWithoutBytes(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{initiator: true})
	done := make(completionWaiter, 2)
	sink := make([]byte, 4)
	require.NoError(t, e.Post(
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}, Done: done},
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{sink}, Done: done},
	))
	req := p.expectReadRequest()
	assert.Zero(t, req.Size)
	p.sendSegments(responseSeg(true, 0xdeadbeef, 12345, nil)) // R5041-5.2-9
	require.NoError(t, done.wait(t).Err)
	req = p.expectReadRequest()
	p.sendSegments(
		responseSeg(false, req.SinkSTag, req.SinkTO, []byte("data")),
		responseSeg(true, req.SinkSTag, req.SinkTO+4, nil),
	)
	require.NoError(t, done.wait(t).Err)
	assert.Equal(t, "data", string(sink))
}

// TestReadResponseWrong checks that a Read Response must have the oldest
// outstanding Read's STag, TO and length (R5040-5.2.2-8).
func TestReadResponseWrong(t *testing.T) {
	type segments = func(r rdmap.ReadRequest) [][]byte
	for name, tt := range map[string]struct {
		send  segments
		cause error
	}{
		"too short": {func(r rdmap.ReadRequest) [][]byte {
			return [][]byte{responseSeg(true, r.SinkSTag, r.SinkTO, make([]byte, 7))}
		}, ddp.ErrBounds},
		"empty": {func(r rdmap.ReadRequest) [][]byte {
			return [][]byte{responseSeg(true, r.SinkSTag, r.SinkTO, nil)}
		}, ddp.ErrBounds},
		"too long": {func(r rdmap.ReadRequest) [][]byte {
			return [][]byte{responseSeg(true, r.SinkSTag, r.SinkTO, make([]byte, 9))}
		}, ddp.ErrBounds},
		"too long by a segment": {func(r rdmap.ReadRequest) [][]byte {
			return [][]byte{responseSeg(false, r.SinkSTag, r.SinkTO, make([]byte, 8)), responseSeg(true, r.SinkSTag, r.SinkTO+8, []byte{1})}
		}, ddp.ErrBounds},
		"with a gap": {func(r rdmap.ReadRequest) [][]byte {
			return [][]byte{responseSeg(false, r.SinkSTag, r.SinkTO, make([]byte, 4)), responseSeg(true, r.SinkSTag, r.SinkTO+5, make([]byte, 3))}
		}, ddp.ErrBounds},
		"to the next one's offset": {func(r rdmap.ReadRequest) [][]byte {
			return [][]byte{responseSeg(true, r.SinkSTag, r.SinkTO+1<<32, make([]byte, 8))}
		}, ddp.ErrBounds},
		"before the sink": {func(r rdmap.ReadRequest) [][]byte {
			return [][]byte{responseSeg(true, r.SinkSTag, r.SinkTO-1, make([]byte, 8))}
		}, ddp.ErrBounds},
		"to another STag": {func(r rdmap.ReadRequest) [][]byte {
			return [][]byte{responseSeg(true, r.SinkSTag+1, r.SinkTO, make([]byte, 8))}
		}, ddp.ErrInvalidSTag},
		"once too often": {func(r rdmap.ReadRequest) [][]byte {
			whole := responseSeg(true, r.SinkSTag, r.SinkTO, make([]byte, 8))
			second := responseSeg(true, r.SinkSTag, r.SinkTO+1<<32, make([]byte, 8))
			return [][]byte{whole, second, whole}
		}, ddp.ErrInvalidSTag},
		"as an RDMA Write": {func(r rdmap.ReadRequest) [][]byte {
			return [][]byte{writeSeg(true, r.SinkSTag, r.SinkTO, make([]byte, 8))}
		}, ddp.ErrInvalidSTag},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true})
			mem, done := patternBytes(32), make(completionWaiter, 2)
			require.NoError(t, e.Post(
				rdma.WR{Op: rdma.OpRead, Data: [][]byte{mem[8:16:16]}, Done: done},
				rdma.WR{Op: rdma.OpRead, Data: [][]byte{mem[16:24:24]}, Done: done},
			))
			req := p.expectReadRequest()
			p.expectReadRequest()
			segments := tt.send(req)
			p.sendSegments(segments...)
			term := p.readTerminate()
			assert.ErrorIs(t, term.Cause, tt.cause)
			assert.Equal(t, segments[len(segments)-1][:ddp.TaggedLen], term.DDPHeader)
			for range 2 {
				if name != "once too often" {
					assert.ErrorIs(t, done.wait(t).Err, rdma.ErrFlushed) // R5040-5.5-19-1
				}
			}
			assert.Equal(t, patternBytes(32)[:8], mem[:8])
			assert.Equal(t, patternBytes(32)[24:], mem[24:])
			requireFault(t, e.inbox.closeError(t), false, term.Cause)
		})
	}
}

// TestReadResponses checks that responses come in the requests' order, with the
// sink that the peer named, and without help from the upper layer
// (R5040-5.2.1-3, R5040-5.2.1-8, R5040-5.2.2-7, R5040-5.5-20-1, R5040-App.B-4).
func TestReadResponses(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{ird: 5})
	mem := patternBytes(200_000)
	r, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	reqs := []rdmap.ReadRequest{
		{SinkSTag: 0, SinkTO: 1<<64 - 1, Size: 150_000, SourceSTag: r.STag(), SourceTO: 3}, // this end does not check the sink
		{SinkSTag: 1, SinkTO: 5, Size: 1, SourceSTag: r.STag(), SourceTO: 199_999},
		{SinkSTag: 0xffffffff, Size: 0, SourceSTag: 0xdeadbeef, SourceTO: 1<<64 - 1}, // R5040-5.2.1-15
		{SinkSTag: 3, Size: 200_000, SourceSTag: r.STag()},
		{SinkSTag: 4, Size: 70_001, SourceSTag: r.STag(), SourceTO: 1},
	}
	var segments [][]byte
	for i, req := range reqs { // R5040-5.2.2-3: as many as IRD at once
		segments = append(segments, requestSeg(uint32(i+1), req))
	}
	p.sendSegments(segments...)
	for _, req := range reqs {
		h, got := p.readResponse()
		assert.Equal(t, req.SinkSTag, h.STag)
		assert.Equal(t, req.SinkTO, h.TO)
		if req.Size == 0 {
			assert.Empty(t, got) // R5040-5.2.1-16
			continue
		}
		assert.Equal(t, mem[req.SourceTO:][:req.Size], got)
	}
	r.Deregister()
	assert.Empty(t, e.inbox.recvs) // R5040-3.2-10, R5040-5.2.1-4
}

// TestReadAfterWrite checks that a Read sees earlier Writes' data
// (R5040-5.5-12-1, R5040-5.5-17-1, R5040-App.B-2).
func TestReadAfterWrite(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{})
	r, err := e.Register(make([]byte, 5), rdma.RemoteRead|rdma.RemoteWrite)
	require.NoError(t, err)
	p.sendSegments(
		writeSeg(true, r.STag(), 0, []byte("fresh")),
		requestSeg(1, rdmap.ReadRequest{Size: 5, SourceSTag: r.STag()}),
	)
	_, got := p.readResponse()
	assert.Equal(t, "fresh", string(got))
}

// TestReadsBeyondIRD checks that IRD+1 outstanding Reads cause a Terminate
// (R5040-6.1-7).
func TestReadsBeyondIRD(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{pipe: true, ird: 2})
	mem := make([]byte, 4<<20)
	r, err := e.Register(mem, rdma.RemoteRead)
	require.NoError(t, err)
	req := rdmap.ReadRequest{Size: uint32(len(mem)), SourceSTag: r.STag()}
	p.sendSegments(requestSeg(1, req), requestSeg(2, req), requestSeg(3, req))
	segment := p.readSegment()
	for segment[0]&0x80 != 0 {
		segment = p.readSegment()
	}
	assert.Equal(t, rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: 2}, parseTerminate(t, segment).Cause)
	p.expectEOF()
	require.ErrorIs(t, e.inbox.closeError(t), ddp.ErrNoBuffer)
}

// TestReadsWait checks that at most ORD Reads are outstanding, and that a
// fenced work request waits for all earlier Reads.
func TestReadsWait(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{initiator: true, ord: 2})
	done, sink := make(completionWaiter, 5), make([]byte, 4)
	read := func(i int) rdma.WR {
		return rdma.WR{Op: rdma.OpRead, Data: [][]byte{sink[i : i+1]}, Done: done, ID: uint64(i)}
	}
	fenced := rdma.WR{Op: rdma.OpSend, Fence: true, Done: done, ID: 3}
	require.NoError(t, e.Post(read(0), read(1), read(2), fenced))
	respond := func(r rdmap.ReadRequest, b byte) {
		p.sendSegments(responseSeg(true, r.SinkSTag, r.SinkTO, []byte{b}))
	}
	first, second := p.expectReadRequest(), p.expectReadRequest() // R5040-6.1-4
	p.expectSilence(20 * time.Millisecond)                        // R5040-6.1-6, R5040-6.1-2
	respond(first, 10)
	third := p.expectReadRequest()
	respond(second, 11)
	p.expectSilence(20 * time.Millisecond) // R5040-5.5-12-3, R5040-App.B-3
	respond(third, 12)
	assert.Equal(t, sendSeg(true, 1, 0, nil), p.readSegment())
	for i := range 4 { // R5040-5.5-15-1
		assert.Equal(t, uint64(i), done.wait(t).ID)
	}
	assert.Equal(t, []byte{10, 11, 12, 0}, sink)
}

// TestReadWithoutORD checks that posting a Read fails if the peer serves no
// Reads. Such a Read would wait forever.
func TestReadWithoutORD(t *testing.T) {
	checkLeaks(t)
	e, _ := connectRaw(t, rawOptions{initiator: true, ord: -1})
	err := e.Post(rdma.WR{Op: rdma.OpSend}, rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}})
	require.ErrorIs(t, err, errNoReads)
}
