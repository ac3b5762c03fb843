package iwarp

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// terminateErrors are all errors that a Terminate can carry: layer, type, code, and
// their text.
var terminateErrors = []struct {
	layer, etype, code uint8
	words              string
}{
	{0, 0, 0x00, "RDMAP local catastrophic error"}, // R5040-4.8-7: any code
	{0, 0, 0x77, "RDMAP local catastrophic error"},
	{0, 1, 0x00, "RDMAP remote protection error: invalid STag"}, // R5040-4.8-8
	{0, 1, 0x01, "RDMAP remote protection error: base or bounds violation"},
	{0, 1, 0x02, "RDMAP remote protection error: access rights violation"},
	{0, 1, 0x03, "RDMAP remote protection error: STag not associated with RDMAP stream"},
	{0, 1, 0x04, "RDMAP remote protection error: TO wrap"},
	{0, 1, 0x09, "RDMAP remote protection error: STag cannot be invalidated"},
	{0, 1, 0xff, "RDMAP remote protection error: unspecified"},
	{0, 2, 0x05, "RDMAP remote operation error: invalid RDMAP version"}, // R5040-4.8-9
	{0, 2, 0x06, "RDMAP remote operation error: unexpected opcode"},
	{0, 2, 0x07, "RDMAP remote operation error: catastrophic error of the stream"},
	{0, 2, 0x08, "RDMAP remote operation error: catastrophic error, global"},
	{0, 2, 0x09, "RDMAP remote operation error: STag cannot be invalidated"},
	{0, 2, 0xff, "RDMAP remote operation error: unspecified"},
	{1, 0, 0x00, "DDP local catastrophic error"},
	{1, 1, 0x00, "DDP tagged buffer error: invalid STag"},
	{1, 1, 0x01, "DDP tagged buffer error: base or bounds violation"},
	{1, 1, 0x02, "DDP tagged buffer error: STag not associated with DDP stream"},
	{1, 1, 0x03, "DDP tagged buffer error: TO wrap"},
	{1, 1, 0x04, "DDP tagged buffer error: invalid DDP version"},
	{1, 2, 0x01, "DDP untagged buffer error: invalid QN"},
	{1, 2, 0x02, "DDP untagged buffer error: invalid MSN, no buffer available"},
	{1, 2, 0x03, "DDP untagged buffer error: invalid MSN, out of range"},
	{1, 2, 0x04, "DDP untagged buffer error: invalid MO"},
	{1, 2, 0x05, "DDP untagged buffer error: message too long for available buffer"},
	{1, 2, 0x06, "DDP untagged buffer error: invalid DDP version"},
	{2, 0, 0x01, "MPA error: TCP connection closed, terminated or lost"},
	{2, 0, 0x02, "MPA error: CRC mismatch"},
	{2, 0, 0x03, "MPA error: Marker and ULPDU length disagree"},
	{2, 0, 0x04, "MPA error: invalid request or reply frame"},
	{2, 0, 0x05, "MPA error: local catastrophic error"},
	{2, 0, 0x06, "MPA error: insufficient IRD resources"},
	{2, 0, 0x07, "MPA error: no matching RTR option"},
	{0, 3, 0x01, "error: layer 0x0, type 0x3, code 0x01"}, // unassigned
	{1, 7, 0x01, "DDP error: type 0x7, code 0x01"},
	{2, 0, 0x20, "MPA error: code 0x20"},
	{9, 4, 0x05, "error: layer 0x9, type 0x4, code 0x05"},
}

// TestRDMAPTerminated checks that a peer's Terminate, in RFC 5040's layout and
// in siw's, reaches the upper layer as text and as a value, without a posted
// receive. Nothing more is sent, all posted work requests fail, and the TCP
// connection is closed gracefully.
func TestRDMAPTerminated(t *testing.T) {
	for _, n := range terminateErrors {
		for _, siw := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, %d, %#x, siw %v", n.layer, n.etype, n.code, siw), func(t *testing.T) {
				checkLeaks(t)
				e, p := connectRaw(t, rawOptions{initiator: true}) // R5040-5.4-4: no receive
				region, err := e.Register(make([]byte, 8), rdma.RemoteWrite)
				require.NoError(t, err)
				done := make(completionWaiter, 2)
				require.NoError(t, e.Post(
					rdma.WR{Op: rdma.OpRead, Data: [][]byte{{0}}, Remote: rdma.Remote{STag: 0xabc, TO: 0x10}, Done: done, ID: 1},
					rdma.WR{Op: rdma.OpSend, Fence: true, Done: done, ID: 2}, // not given to DDP yet
				))
				request := p.readSegment()
				body := append([]byte{n.layer<<4 | n.etype, n.code, 0xe0, 0, 0, 46}, request...) // R5040-4.8-3
				if siw {
					body[0], body[2], body[5] = n.etype<<4|n.layer, 0x07, 0
				}
				p.sendSegments(append(rdmap.AppendUntagged(nil, rdmap.OpTerminate, true, 0, 1, 0), body...))

				for id := range 2 { // R5040-5.4-8, R5040-6.2.1-2, R5040-3.1-12
					c := done.wait(t)
					assert.EqualValues(t, id+1, c.ID)
					require.ErrorIs(t, c.Err, rdma.ErrFlushed)
					requireFault(t, c.Err, true, rdmap.Error{Layer: n.layer, Type: n.etype, Code: n.code})
				}
				end := e.inbox.closeError(t) // R5040-5.4-5, R5040-5.4-6
				requireFault(t, end, true, rdmap.Error{Layer: n.layer, Type: n.etype, Code: n.code})
				var f *Fault
				require.ErrorAs(t, end, &f)
				assert.Equal(t, request, append(f.Terminate.DDPHeader, f.Terminate.RDMAPHeader...))
				assert.Equal(t, "iwarp: the peer terminated the connection: "+n.words+
					", RDMA Read Request on queue 1, MSN 1, MO 0, of 1 bytes from STag 0x00000abc, TO 0x10 to "+
					fmt.Sprintf("STag %v, TO 0x100000000, length %d", e.tx.sinkSTag, body[5]), f.Error())
				p.expectEOF()                       // R5040-5.4-10, R5040-6.2.1-3, R5040-6.2.1-4, R5040-7-4: nothing more, and a FIN
				for _, use := range []func() error{ // R5040-7-3
					func() error { return e.Post(rdma.WR{Op: rdma.OpSend}) },
					func() error { _, err := e.Register(nil, rdma.RemoteRead); return err },
				} {
					err := use()
					require.ErrorIs(t, err, rdma.ErrClosed)
					assert.True(t, errors.As(err, &f)) // every error contains the Terminate
				}
				assert.Nil(t, testDevice.findRegion(region.STag()))
			})
		}
	}
}

// TestRDMAPTerminatedBare checks that a Terminate without headers is parsed
// too, and that reserved bits are ignored (R5040-4.8-14).
func TestRDMAPTerminatedBare(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{initiator: true})
	p.sendSegments(append(rdmap.AppendUntagged(nil, rdmap.OpTerminate, true, 0, 1, 0), 0x10, 0x5a, 0x1f, 0xff))
	err := e.inbox.closeError(t)
	requireFault(t, err, true, rdmap.Error{Layer: 1, Type: 0, Code: 0x5a})
	assert.Equal(t, "iwarp: the peer terminated the connection: DDP local catastrophic error", err.Error())
}

// TestRDMAPTerminatedBadly checks that a malformed Terminate is an error too
// (R5040-5.4-7).
func TestRDMAPTerminatedBadly(t *testing.T) {
	whole := rdmap.NewTerminate(rdmap.ErrAccess, requestSeg(1, rdmap.ReadRequest{}), 46).AppendTo(nil)
	for n := range whole {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{initiator: true})
		p.sendSegments(append(rdmap.AppendUntagged(nil, rdmap.OpTerminate, true, 0, 1, 0), whole[:n]...))
		err := e.inbox.closeError(t)
		require.ErrorIs(t, err, rdmap.ErrLength, "%d bytes", n)
		assert.ErrorContains(t, err, "invalid Terminate from the peer")
		p.expectReset()
	}
}

// TestRDMAPTerminatedInPieces checks that a Terminate may arrive in several
// segments, like any message.
func TestRDMAPTerminatedInPieces(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{})
	body := rdmap.NewTerminate(rdmap.ErrorOf(ddp.ErrTooLong), sendSeg(true, 1, 0, nil), 18).AppendTo(nil)
	for i := range body {
		p.sendSegments(append(rdmap.AppendUntagged(nil, rdmap.OpTerminate, i == len(body)-1, 0, 1, uint32(i)), body[i]))
	}
	requireFault(t, e.inbox.closeError(t), true, rdmap.ErrorOf(ddp.ErrTooLong))
}
