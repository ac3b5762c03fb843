package iwarp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// A hostilePeer is a peer that has received the Read Request read and knows the
// other end's regions.
type hostilePeer struct {
	*rawPeer
	read    rdmap.ReadRequest // 8 bytes, outstanding
	regions testRegions
}

// terminateSeg returns a Terminate's segment with the given body.
func terminateSeg(last bool, mo uint32, body ...byte) []byte {
	return append(rdmap.AppendUntagged(nil, rdmap.OpTerminate, last, 0, 1, mo), body...)
}

// lies are the false messages that a peer may send, with the first word in the
// Terminate that the last segment causes. If control is empty, the connection
// continues.
var lies = []struct {
	name    string
	tell    func(p hostilePeer) [][]byte
	control string
}{
	{"answers a Read longer than asked", func(p hostilePeer) [][]byte {
		return [][]byte{responseSeg(true, p.read.SinkSTag, p.read.SinkTO, make([]byte, 9))}
	}, "11 01 c0 00"},
	{"answers a Read with less", func(p hostilePeer) [][]byte {
		return [][]byte{responseSeg(true, p.read.SinkSTag, p.read.SinkTO, make([]byte, 7))}
	}, "11 01 c0 00"}, // R5040-5.2.2-8
	{"answers the Read twice", func(p hostilePeer) [][]byte {
		whole := responseSeg(true, p.read.SinkSTag, p.read.SinkTO, make([]byte, 8))
		return [][]byte{whole, whole}
	}, "11 00 c0 00"},
	{"answers into its own Read's source", func(p hostilePeer) [][]byte {
		return [][]byte{responseSeg(true, p.regions.rw, 0, make([]byte, 8))}
	}, "11 00 c0 00"}, // R5040-5.2.2-5
	{"answers a Read with a Write", func(p hostilePeer) [][]byte {
		return [][]byte{writeSeg(true, p.read.SinkSTag, p.read.SinkTO, make([]byte, 8))}
	}, "11 00 c0 00"},
	{"answers a Read with an Atomic Response", func(p hostilePeer) [][]byte {
		return [][]byte{atomicResponseSeg(1, rdmap.AtomicResponse{ID: 1})}
	}, "12 02 c0 00"},
	{"reads the sink of the Read that it is to answer", func(p hostilePeer) [][]byte {
		return readSegments(p.read.SinkSTag, p.read.SinkTO, 8)
	}, "01 00 e0 00"},
	{"invalidates the sink of the Read", func(p hostilePeer) [][]byte {
		return [][]byte{invalidateSeg(1, p.read.SinkSTag, nil)}
	}, "01 09 c0 00"},
	{"invalidates twice", func(p hostilePeer) [][]byte {
		return [][]byte{invalidateSeg(1, p.regions.rw, nil), invalidateSeg(2, p.regions.rw, nil)}
	}, "01 09 c0 00"},
	{"reads what it has invalidated", func(p hostilePeer) [][]byte {
		return append([][]byte{invalidateSeg(1, p.regions.rw, nil)}, readSegments(p.regions.rw, 0, 1)...)
	}, "01 00 e0 00"}, // R5040-5.3-14
	{"asks for 4 GiB of 100 bytes", func(p hostilePeer) [][]byte { return readSegments(p.regions.rw, 0, 1<<32-1) }, "01 01 e0 00"}, // R5040-4.4-7
	{"sends half a Send and then the next", func(p hostilePeer) [][]byte {
		return [][]byte{sendSeg(false, 1, 0, []byte("half")), sendSeg(true, 2, 0, nil)}
	}, "12 03 c0 00"},
	{"changes the kind of a Send within it to a Read Request", func(p hostilePeer) [][]byte {
		return [][]byte{sendSeg(false, 1, 0, []byte("half")), withByte(sendSeg(true, 1, 4, nil), 1, 0x41)}
	}, "02 06 c0 00"},
	{"says where in a Read Request its rest begins", func(p hostilePeer) [][]byte {
		return [][]byte{withWord(readSegments(p.regions.rw, 0, 1)[0], 14, 28)}
	}, "12 04 c0 00"},
	{"sends a second Terminate within the first", func(p hostilePeer) [][]byte {
		return [][]byte{terminateSeg(false, 0, 1, 2), terminateSeg(true, 0, 1, 2, 0, 0)}
	}, "12 04 c0 00"},

	{"names this end's memory as the sink of a Read", func(p hostilePeer) [][]byte {
		return [][]byte{requestSeg(1, rdmap.ReadRequest{SinkSTag: p.regions.wo, SinkTO: 3, Size: 8, SourceSTag: p.regions.ro})}
	}, ""}, // R5040-4.4-3
	{"names an STag in a Send that invalidates nothing", func(p hostilePeer) [][]byte {
		return [][]byte{withWord(sendSeg(true, 1, 0, nil), 2, uint32(p.regions.rw)), writeSeg(true, p.regions.rw, 0, []byte{1})}
	}, ""}, // R5040-4.1-12
	{"sends empty segments of a Send on and on", func(p hostilePeer) (all [][]byte) {
		for range 5000 {
			all = append(all, sendSeg(false, 1, 0, nil))
		}
		return append(all, sendSeg(true, 1, 0, nil))
	}, ""},
	{"sends empty segments of a Read Response on and on", func(p hostilePeer) (all [][]byte) {
		for range 5000 {
			all = append(all, responseSeg(false, 0, 0, nil))
		}
		return all
	}, ""},
}

// TestRDMAPLies checks that a lying peer gets a Terminate for its first lie, or
// does no harm: the only memory that changes is memory that the peer may write.
func TestRDMAPLies(t *testing.T) {
	for _, tt := range lies {
		t.Run(tt.name, func(t *testing.T) {
			checkLeaks(t)
			other, _ := connectRaw(t, rawOptions{})
			e, p := connectRaw(t, rawOptions{initiator: true, recvs: 8, recvSize: 64})
			g, mem := registerRegions(t, e, other)
			sink, done := make([]byte, 24), make(completionWaiter, 1)
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{sink[8:16:16]}, Done: done}))
			read := p.expectReadRequest()
			segments := tt.tell(hostilePeer{p, read, g})
			p.sendSegments(segments...)
			if tt.control != "" {
				assert.Equal(t, terminateBytes(t, tt.control, segments[len(segments)-1]), p.readSegment())
				p.expectEOF()
				require.True(t, isFault(e.inbox.closeError(t)))
			} else {
				p.sendSegments(responseSeg(true, read.SinkSTag, read.SinkTO, make([]byte, 8)))
				require.NoError(t, done.wait(t).Err)
			}
			assert.Equal(t, make([]byte, 8), sink[:8])
			assert.Equal(t, make([]byte, 8), sink[16:])
			clear(mem[50:51]) // memory that the peer may write
			assert.Equal(t, make([]byte, len(mem)), mem)
		})
	}
}

// TestRDMAPAfterTerminate checks that data after a Terminate is ignored (RFC
// 5040, Section 5.4: its sender must not send it).
func TestRDMAPAfterTerminate(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{recvs: 1})
	mem := make([]byte, 8)
	r, err := e.Register(mem, rdma.RemoteWrite)
	require.NoError(t, err)
	p.sendSegments(
		terminateSeg(true, 0, rdmap.NewTerminate(rdmap.ErrorOf(ddp.ErrNoBuffer), nil, 0).AppendTo(nil)...),
		writeSeg(true, r.STag(), 0, []byte("late")), sendSeg(true, 1, 0, nil),
	)
	requireFault(t, e.inbox.closeError(t), true, rdmap.ErrorOf(ddp.ErrNoBuffer))
	assert.Empty(t, e.inbox.recvs)
	assert.Equal(t, make([]byte, 8), mem)
}
