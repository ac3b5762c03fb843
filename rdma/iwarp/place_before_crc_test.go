package iwarp

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// bitsToFlip returns the bits to flip, one at a time, in an FPDU with n bytes:
// all bits in the headers, and some in payload and trailer.
func bitsToFlip(n int) (bits []int) {
	for bit := range 8 * (mpa.LengthLen + ddp.TaggedLen) {
		bits = append(bits, bit)
	}
	return append(bits, 8*20, 4*n, 8*n-8*mpa.CRCLen-1, 8*n-1)
}

// TestBrokenWhilePlaced checks an FPDU whose payload is placed before its CRC
// is verified. A flipped bit, wherever it is, must not change valid data, and
// must cause the usual Terminate (R5044-4.4-11, R5044-6-1).
func TestBrokenWhilePlaced(t *testing.T) {
	const top, size = 1 << 15, 20_000
	good := patternBytes(top)
	try := func(bit int) (n int) {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{crc: true, recvs: 1, recvSize: 16, initiator: true})
		mem := [2][]byte{make([]byte, 1<<17), make([]byte, 1<<17)}
		var regions [2]rdma.Region
		for i := range regions {
			var err error
			regions[i], err = e.Register(mem[i], rdma.RemoteWrite|rdma.Scratch)
			require.NoError(t, err)
			p.sendSegments(writeSeg(true, regions[i].STag(), 0, good))
		}
		p.sendSegments(sendSeg(true, 1, 0, nil))
		e.inbox.nextMessage(t)
		fpdu := p.frameFPDU(writeSeg(true, regions[0].STag(), top, bytes.Repeat([]byte{0xee}, size)))
		fpdu[bit/8] ^= 1 << (bit % 8)
		p.writeBytes(fpdu)
		if bit < 16 { // the length
			p.writeBytes(make([]byte, 1<<16))
		}
		assert.Equal(t, mpa.ErrCRC, mpa.Error(p.readTerminate().Cause.Code), "bit %d", bit)
		require.ErrorIs(t, e.inbox.closeError(t), mpa.ErrCRC)
		for i, m := range mem {
			require.True(t, bytes.Equal(good, m[:top]), "bit %d, region %d", bit, i)
			regions[i].Deregister()
		}
		return len(fpdu)
	}
	for _, bit := range bitsToFlip(try(20 * 8)) {
		try(bit)
	}
}

// TestBrokenWhileRead checks the same for a Read Response: the RDMA Read fails
// (R5044-6-1).
func TestBrokenWhileRead(t *testing.T) {
	const size = 20_000
	try := func(bit int) (n int) {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{crc: true, initiator: true})
		sink, done := make([]byte, 3*size), make(completionWaiter, 2)
		for _, data := range [][]byte{sink[:size], sink[size:]} {
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{data}, Remote: rdma.Remote{STag: 1}, Done: done}))
		}
		first, second := p.expectReadRequest(), p.expectReadRequest()
		good := patternBytes(size)
		p.sendSegments(responseSeg(true, first.SinkSTag, first.SinkTO, good))
		require.NoError(t, done.wait(t).Err)
		fpdu := p.frameFPDU(responseSeg(false, second.SinkSTag, second.SinkTO, bytes.Repeat([]byte{0xee}, size)))
		fpdu[bit/8] ^= 1 << (bit % 8)
		p.writeBytes(fpdu)
		if bit < 16 {
			p.writeBytes(make([]byte, 1<<16))
		}
		assert.Equal(t, mpa.ErrCRC, mpa.Error(p.readTerminate().Cause.Code), "bit %d", bit)
		require.ErrorIs(t, e.inbox.closeError(t), mpa.ErrCRC)
		require.Error(t, done.wait(t).Err)
		require.True(t, bytes.Equal(good, sink[:size]), "bit %d", bit)
		return len(fpdu)
	}
	for _, bit := range bitsToFlip(try(20 * 8)) {
		try(bit)
	}
}

// TestFaultOfLongFPDU checks that a long FPDU with a wrong header and a good
// CRC causes the header's error.
func TestFaultOfLongFPDU(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{crc: true, initiator: true})
	r, err := e.Register(make([]byte, 20_000), rdma.RemoteWrite|rdma.Scratch)
	require.NoError(t, err)
	p.sendSegments(writeSeg(true, r.STag(), 1, make([]byte, 20_000)))
	assert.EqualValues(t, ddp.ErrBounds.Code, p.readTerminate().Cause.Code)
	e.inbox.closeError(t)
	r.Deregister()
}
