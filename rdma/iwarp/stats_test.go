package iwarp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// since returns the counts that were added after before.
func (n Counts) since(before Counts) Counts {
	n.FPDUs -= before.FPDUs
	n.Bytes -= before.Bytes
	for op := range n.Messages {
		n.Messages[op] -= before.Messages[op]
	}
	return n
}

// TestStats checks that sent and received messages are counted by kind,
// including messages on connections that have ended.
func TestStats(t *testing.T) {
	checkLeaks(t)
	before := testDevice.Stats()
	e, p := connectRaw(t, rawOptions{initiator: true, recvs: 4, before: func(c *Conn) { c.mulpdu = 128 }})
	q, _ := connectRaw(t, rawOptions{})
	mem := patternBytes(500)
	r, err := e.Register(mem, rdma.RemoteRead|rdma.RemoteWrite)
	require.NoError(t, err)
	_, err = q.Register(mem[:9], rdma.RemoteRead)
	require.NoError(t, err)
	now := testDevice.Stats()
	assert.Equal(t, before.Connections+2, now.Connections)
	assert.Equal(t, before.ConnectionsTotal+2, now.ConnectionsTotal)
	assert.Equal(t, before.Regions+2, now.Regions)
	assert.Equal(t, before.RegionBytes+509, now.RegionBytes)

	sink, done := make([]byte, 3), make(completionWaiter, 3)
	require.NoError(t, e.Post(
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{mem[:300]}, Done: done}, // FPDUs with up to 114 payload bytes
		rdma.WR{Op: rdma.OpSend, Data: [][]byte{mem[:111]}, Solicited: true, Done: done},
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{sink}, Done: done},
	))
	for range 3 + 2 {
		p.readSegment()
	}
	req := p.expectReadRequest()
	p.sendSegments(
		responseSeg(false, req.SinkSTag, req.SinkTO, []byte("ab")), responseSeg(true, req.SinkSTag, req.SinkTO+2, []byte("c")),
		sendSeg(false, 1, 0, []byte("hello")), sendSeg(true, 1, 5, nil),
		writeSeg(true, r.STag(), 0, []byte{1, 2, 3, 4}),
		requestSeg(1, rdmap.ReadRequest{Size: 200, SourceSTag: r.STag()}),
	)
	e.inbox.nextMessage(t)
	p.readResponse()
	for range 3 {
		require.NoError(t, done.wait(t).Err)
	}
	sent, received := Counts{FPDUs: 8, Bytes: 300 + 111 + 28 + 200}, Counts{FPDUs: 6, Bytes: 3 + 5 + 4 + 28}
	for _, op := range []rdmap.Opcode{rdmap.OpWrite, rdmap.OpSendSE, rdmap.OpReadRequest, rdmap.OpReadResponse} {
		sent.Messages[op] = 1
	}
	for _, op := range []rdmap.Opcode{rdmap.OpReadResponse, rdmap.OpSend, rdmap.OpWrite, rdmap.OpReadRequest} {
		received.Messages[op] = 1
	}
	now = testDevice.Stats()
	assert.Equal(t, sent, now.Sent.since(before.Sent))
	assert.Equal(t, received, now.Received.since(before.Received))

	p.sendSegments(writeSeg(true, 0, 0, []byte{1}))
	p.readTerminate()
	e.inbox.closeError(t)
	itsSent, itsReceived := e.Counts()
	sent.FPDUs++
	sent.Bytes += 4 + 2 + ddp.TaggedLen
	sent.Messages[rdmap.OpTerminate]++
	now = testDevice.Stats()
	assert.Equal(t, sent, now.Sent.since(before.Sent))
	assert.Equal(t, received, now.Received.since(before.Received), "one that is wrong does not count")
	assert.Equal(t, sent, itsSent, "though it has ended")
	assert.Equal(t, received, itsReceived)
	assert.Equal(t, before.Connections+1, now.Connections)
	assert.Equal(t, before.ConnectionsTotal+2, now.ConnectionsTotal)
	assert.Equal(t, before.Regions+1, now.Regions)
	assert.Equal(t, before.RegionBytes+9, now.RegionBytes)
}

// TestStatsOfTerminates checks that Terminates are counted by error, sent and
// received Terminates separately.
func TestStatsOfTerminates(t *testing.T) {
	checkLeaks(t)
	before := testDevice.Stats()
	a, b := connectPair(t, pairOptions{})
	require.NoError(t, a.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{{0}}, Remote: rdma.Remote{STag: 1}}))
	a.inbox.closeError(t)
	b.inbox.closeError(t)
	now := testDevice.Stats()
	for _, cause := range []rdmap.Error{rdmap.ErrInvalidSTag, rdmap.ErrAccess} {
		want := uint64(0)
		if cause == rdmap.ErrInvalidSTag {
			want = 1
		}
		assert.Equal(t, before.TerminatesSent[cause]+want, now.TerminatesSent[cause])
		assert.Equal(t, before.TerminatesReceived[cause]+want, now.TerminatesReceived[cause])
	}
	now.TerminatesSent[rdmap.ErrInvalidSTag] = 0 // a copy
	assert.NotZero(t, testDevice.Stats().TerminatesSent[rdmap.ErrInvalidSTag])
}
