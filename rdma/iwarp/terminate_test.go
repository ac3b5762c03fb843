package iwarp

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestTerminate checks that each error causes the Terminate that the RFCs
// specify, with the faulty segment's headers, and that nothing is placed or
// delivered afterwards (R5044-8-4). Other DDP and RDMAP versions are among the
// errors (R5044-C.1-1).
func TestTerminate(t *testing.T) {
	for _, o := range []rawOptions{{}, {crc: true}, {markers: true}} {
		for _, tt := range faultCases() {
			t.Run(fmt.Sprintf("%s, %v", tt.name, o), func(t *testing.T) {
				checkLeaks(t)
				other, _ := connectRaw(t, rawOptions{})
				e, p := connectRaw(t, rawOptions{initiator: true, crc: o.crc, markers: o.markers, recvs: 2, recvSize: 64})
				g, mem := registerRegions(t, e, other)
				segments := tt.segments(g)
				bad := segments[len(segments)-1]
				// R5041-7.1-4, R5044-8-4: data after an error has no effect.
				p.sendSegments(append(segments, writeSeg(true, g.wo, 0, []byte("late")), sendSeg(true, 1, 0, []byte("late")))...)

				got := p.readTerminate()
				assert.ErrorIs(t, got.Cause, tt.cause) // R5040-7.1-4-1
				// R5040-7.1-2-1, R5040-7.1-3-1, R5040-4.8-15 to R5040-4.8-23
				assert.True(t, got.HasLength)
				assert.Equal(t, len(bad), int(got.SegmentLen))
				header := ddp.HeaderLen(bad[0])
				assert.Equal(t, bad[:header], got.DDPHeader)
				if tt.rdmap {
					assert.Equal(t, bad[header:][:rdmap.ReadRequestLen], got.RDMAPHeader)
				} else {
					assert.Nil(t, got.RDMAPHeader)
				}

				err := e.inbox.closeError(t) // R5040-7.1-1, R5041-8.3-5-1
				requireFault(t, err, false, got.Cause)
				assert.NotContains(t, string(mem), "\xee") // R5041-7.1-2
				assert.NotContains(t, string(mem), "late")
				assert.ErrorIs(t, e.Post(rdma.WR{}), rdma.ErrClosed) // R5040-7-3
			})
		}
	}
}

// registerRegions registers the regions that the fault cases use. The regions share one memory
// block, so that the test finds bytes written outside a region.
func registerRegions(t testing.TB, e, other endpoint) (testRegions, []byte) {
	t.Helper()
	mem := make([]byte, 600)
	at := 50
	region := func(e endpoint, access rdma.Access) rdma.Region {
		r, err := e.Register(mem[at:at+100:at+100], access)
		require.NoError(t, err)
		at += 110
		return r
	}
	g := testRegions{
		rw:      region(e, rdma.RemoteRead|rdma.RemoteWrite).STag(),
		ro:      region(e, rdma.RemoteRead).STag(),
		wo:      region(e, rdma.RemoteWrite).STag(),
		foreign: region(other, rdma.RemoteRead|rdma.RemoteWrite).STag(),
	}
	gone := region(e, rdma.RemoteRead|rdma.RemoteWrite)
	gone.Deregister()
	g.deregistered = gone.STag()
	return g, mem
}

// TestTerminateShort checks that a ULPDU too short for a DDP segment causes a
// Terminate without a header.
func TestTerminateShort(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, ulpdu := range [][]byte{{}, {0x41}, {0xc1}, sendSeg(true, 1, 0, nil)[:17], writeSeg(true, 1, 0, nil)[:13]} {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{crc: crc})
			p.sendSegments(ulpdu)
			assert.Equal(t, rdmap.Terminate{Cause: rdmap.ErrUnspecified}, p.readTerminate(), "%d bytes", len(ulpdu))
			requireFault(t, e.inbox.closeError(t), false, rdmap.ErrUnspecified)
		}
	}
}

// TestTerminateCRC checks that an FPDU with a wrong CRC causes a Terminate
// without a header, and places nothing (R5044-8-1).
func TestTerminateCRC(t *testing.T) {
	mem := make([]byte, 8)
	for bit := range 8 * 24 { // bits in the FPDU for a two byte Write
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{crc: true})
		p.sendSegments(writeSeg(true, 0, 0, nil)) // allows a Terminate
		r, err := e.Register(mem, rdma.RemoteWrite)
		require.NoError(t, err)
		fpdu := p.frameFPDU(writeSeg(true, r.STag(), 4, []byte{0xee, 0xee}))
		fpdu[bit/8] ^= 1 << (bit % 8)
		p.writeBytes(fpdu)
		if bit < 16 { // the length
			p.writeBytes(make([]byte, 1<<16))
		}
		// R5040-4.8-6, R5041-7-1, R5044-8-5
		assert.Equal(t, mpa.ErrCRC, mpa.Error(p.readTerminate().Cause.Code), "bit %d", bit)
		require.ErrorIs(t, e.inbox.closeError(t), mpa.ErrCRC)
		require.Equal(t, make([]byte, 8), mem, "bit %d", bit) // R5044-4.4-11, R5044-6-1
		r.Deregister()
	}
}

// TestNoTerminateBeforeFirstFPDU checks that a responder sends nothing before
// it has received a valid FPDU, not even a Terminate (R5044-7.1.2-4-1).
func TestNoTerminateBeforeFirstFPDU(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{crc: true})
	fpdu := p.frameFPDU(sendSeg(true, 1, 0, nil))
	fpdu[len(fpdu)-1]++
	p.writeBytes(fpdu)
	p.expectEOF()
	require.ErrorIs(t, e.inbox.closeError(t), mpa.ErrCRC)
}

// TestResponderWaits checks that the responder's own messages wait for the
// peer's first FPDU, and that a bare FPDU suffices (R5044-7.1.2-4-1).
func TestResponderWaits(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{crc: true})
	require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{{1}}}))
	fpdu := p.frameFPDU(writeSeg(true, 0, 0, nil))
	p.writeBytes(fpdu[:len(fpdu)-1])
	p.expectSilence(30 * time.Millisecond)
	p.writeBytes(fpdu[len(fpdu)-1:])
	assert.Equal(t, sendSeg(true, 1, 0, []byte{1}), p.readSegment())
}
