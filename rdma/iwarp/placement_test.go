package iwarp

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestBounds tries every place and length around a four byte region. Accesses
// within the region succeed; all others cause a Terminate and touch nothing
// (R5040-8.1.1-3-1, R5041-8.3.1-3-1, R5042-6.2.1-1).
func TestBounds(t *testing.T) {
	for _, to := range []uint64{0, 1, 2, 3, 4, 5, math.MaxUint32, 1 << 63, math.MaxUint64 - 1, math.MaxUint64} {
		for n := range 6 {
			checkLeaks(t)
			within := n == 0 || to <= 4 && int(to)+n <= 4
			what := fmt.Sprintf("%d bytes at %d", n, to)

			e, p := connectRaw(t, rawOptions{recvs: 1})
			mem := make([]byte, 12)
			r, err := e.Register(mem[4:8], rdma.RemoteWrite)
			require.NoError(t, err)
			want := make([]byte, 12)
			p.sendSegments(writeSeg(true, r.STag(), to, bytes.Repeat([]byte{7}, n)), sendSeg(true, 1, 0, nil))
			if within {
				e.inbox.nextMessage(t)
				copy(want[4+min(to, 4):], bytes.Repeat([]byte{7}, n))
			} else {
				p.readTerminate()
				e.inbox.closeError(t)
			}
			r.Deregister()
			require.Equal(t, want, mem, what)

			e, p = connectRaw(t, rawOptions{})
			r, err = e.Register([]byte("abcdefghijkl")[4:8], rdma.RemoteRead)
			require.NoError(t, err)
			p.sendSegments(requestSeg(1, rdmap.ReadRequest{Size: uint32(n), SourceSTag: r.STag(), SourceTO: to}))
			if within {
				_, got := p.readResponse()
				require.Equal(t, "efgh"[min(to, 4):][:n], string(got), what)
			} else {
				p.readTerminate()
				e.inbox.closeError(t)
			}
			r.Deregister()
		}
	}
}

// TestRights checks that a region can be read or written only as its
// registration allows (R5040-3.2-12, R5040-8.1.1-5-1, R5041-8.3.1-5-1).
func TestRights(t *testing.T) {
	for access := range rdma.RemoteRead | rdma.RemoteWrite + 1 {
		for _, write := range []bool{false, true} {
			t.Run(fmt.Sprintf("access %d, write %v", access, write), func(t *testing.T) {
				checkLeaks(t)
				e, p := connectRaw(t, rawOptions{recvs: 1})
				mem := []byte("old")
				r, err := e.Register(mem, access)
				require.NoError(t, err)
				segment, need := requestSeg(1, rdmap.ReadRequest{Size: 3, SourceSTag: r.STag()}), rdma.RemoteRead
				if write {
					segment, need = writeSeg(true, r.STag(), 0, []byte("new")), rdma.RemoteWrite
				}
				p.sendSegments(segment, sendSeg(true, 1, 0, nil))
				switch {
				case access&need == 0:
					p.readTerminate()
					e.inbox.closeError(t)
					assert.Equal(t, "old", string(mem))
				case write:
					e.inbox.nextMessage(t)
					assert.Equal(t, "new", string(mem))
				default:
					_, got := p.readResponse()
					assert.Equal(t, "old", string(got))
				}
				r.Deregister()
			})
		}
	}
}

// TestNoBytes checks that an empty message's STag and TO are not checked
// (R5041-5.2-9, R5040-5.2.1-15, R5040-5.1-9).
func TestNoBytes(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{recvs: 1})
	for _, stag := range []rdma.STag{0, 1, 0xdeadbeef, math.MaxUint32} {
		for _, to := range []uint64{0, 1, math.MaxUint64} {
			p.sendSegments(writeSeg(true, stag, to, nil), writeSeg(false, stag, to, nil))
		}
	}
	for i, stag := range []rdma.STag{0, 1, 0xdeadbeef, math.MaxUint32} {
		p.sendSegments(requestSeg(uint32(i+1), rdmap.ReadRequest{SinkSTag: stag, SinkTO: 9, SourceSTag: stag, SourceTO: math.MaxUint64}))
		assert.Equal(t, responseSeg(true, stag, 9, nil), p.readSegment()) // R5041-5.2-8
	}
	p.sendSegments(sendSeg(true, 1, 0, nil))
	assert.Empty(t, e.inbox.nextMessage(t))
}

// TestEmptyRegion checks that an empty region is valid, and that any Write with
// data to it fails.
func TestEmptyRegion(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{})
	r, err := e.Register(nil, rdma.RemoteWrite)
	require.NoError(t, err)
	p.sendSegments(writeSeg(true, r.STag(), 0, nil), writeSeg(true, r.STag(), 0, []byte{1}))
	p.readTerminate()
	e.inbox.closeError(t)
	r.Deregister()
}

// TestInvalidate checks that a Send with Invalidate invalidates only its own
// STag and reports it to the upper layer, and that other Sends ignore the field
// (R5040-4.1-12).
func TestInvalidate(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{recvs: 4})
	mem := make([]byte, 1)
	a, err := e.Register(mem, rdma.RemoteWrite)
	require.NoError(t, err)
	b, err := e.Register(mem, rdma.RemoteWrite)
	require.NoError(t, err)
	se := withByte(invalidateSeg(3, b.STag(), nil), 1, 0x46)
	p.sendSegments(
		withWord(sendSeg(true, 1, 0, nil), 2, uint32(b.STag())),
		invalidateSeg(2, a.STag(), []byte("bye")),
		writeSeg(true, b.STag(), 0, []byte{1}),
		se,
		withByte(sendSeg(true, 4, 0, nil), 1, 0x45),
	)
	type told struct {
		b                                string
		invalidated                      rdma.STag
		withInvalidate, solicited, valid bool
	}
	for _, want := range []told{ // R5040-3.2-4
		{"", 0, false, false, true},
		{"bye", a.STag(), true, false, false},
		{"", b.STag(), true, true, false},
		{"", 0, false, true, true},
	} {
		m := e.inbox.nextRecv(t)
		assert.Equal(t, want.b, string(m.Buf.B))
		assert.Equal(t, want.withInvalidate, m.WithInvalidate)
		assert.Equal(t, want.invalidated, m.Invalidated)
		assert.Equal(t, want.solicited, m.Solicited)
		assert.Equal(t, want.valid, m.Invalidated == 0 || testDevice.findRegion(m.Invalidated) != nil)
		m.Buf.Release()
	}
	assert.Equal(t, []byte{1}, mem)
	a.Deregister() // allowed after the invalidation
	a.Deregister() // and twice
	b.Deregister()
}

// TestIgnored checks that reserved bits are not checked, and that padding and
// CRC are not checked if CRCs are off.
func TestIgnored(t *testing.T) {
	for _, crc := range []bool{false, true} {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{crc: crc, recvs: 3})
		mem := make([]byte, 1)
		r, err := e.Register(mem, rdma.RemoteWrite)
		require.NoError(t, err)
		send, write := sendSeg(true, 1, 0, []byte("abc")), writeSeg(true, r.STag(), 0, []byte{7})
		send[0] |= 0x3c // R5041-4.1-9
		send[1] |= 0x30 // R5040-4.1-10
		write[0] |= 0x3c
		write[1] |= 0x30
		p.sendSegments(send, write)
		assert.Equal(t, "abc", string(e.inbox.nextMessage(t)))
		b := frameFPDU(crc, sendSeg(true, 2, 0, []byte("pad"))) // one padding byte
		if crc {
			copy(b, paddedFPDU(sendSeg(true, 2, 0, []byte("pad")), 0xff)) // R5044-4.1-4
		} else {
			copy(b[len(b)-5:], "\xff\xde\xad\xbe\xef") // R5044-4.1-5, R5044-4.4-7, R5044-7.1.1-9, R5044-7.1.1-10
		}
		p.writeBytes(b)
		assert.Equal(t, "pad", string(e.inbox.nextMessage(t)))
		assert.Equal(t, []byte{7}, mem)
		r.Deregister()
	}
}
