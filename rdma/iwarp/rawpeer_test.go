package iwarp

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa/mpatest"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// testTimeout is how long tests wait for what is expected: long enough for a machine that
// has much else to do.
const testTimeout = time.Minute

// A rawPeer is the other end of a connection under test. It implements only
// FPDUs, and sends the segments that the test supplies.
type rawPeer struct {
	t   testing.TB
	nc  net.Conn
	crc bool

	to, from mpatest.Stream // to and from the Conn
}

// rawOptions describes the connection between a rawPeer and a Conn.
type rawOptions struct {
	crc       bool
	markers   bool // in both directions
	initiator bool // the Conn is MPA's initiator, and may send at once
	pipe      bool // in memory, not TCP
	recvs     int
	recvSize  int
	ird, ord  int  // for the Conn; 0 means 8, and -1 means 0
	immediate bool // the Conn accepts Immediate Data

	before func(*Conn) // called before the Conn starts
}

// connectRaw returns a Conn in full operation and the raw peer at its other
// end.
func connectRaw(t testing.TB, o rawOptions) (endpoint, *rawPeer) {
	t.Helper()
	a, b := ncPair(t, o.pipe)
	depth := func(n int) int {
		if n == 0 {
			return 8
		}
		return max(n, 0)
	}
	e := endpoint{inbox: newInbox()}
	params := mpa.Params{
		Rev: mpa.Rev2, CRC: o.crc, SendMarkers: o.markers, RecvMarkers: o.markers,
		IRD: depth(o.ird), ORD: depth(o.ord),
	}
	cc := rdma.ConnConfig{Handler: e.inbox, Recvs: o.recvs, RecvSize: o.recvSize, Immediate: o.immediate}
	e.Conn = testDevice.newConn(newSocket(a), params, mpa.Frame{}, cc, !o.initiator)
	if o.before != nil {
		o.before(e.Conn)
	}
	e.startReader()
	p := &rawPeer{t: t, nc: b, crc: o.crc}
	p.to.Markers, p.from.Markers = o.markers, o.markers
	t.Cleanup(func() {
		p.nc.Close()
		e.Close()
		e.drainInbox()
	})
	return e, p
}

// ncPair returns the two ends of a connection.
func ncPair(t testing.TB, pipe bool) (a, b net.Conn) {
	t.Helper()
	if pipe {
		return net.Pipe()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	b, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	a, err = l.Accept()
	require.NoError(t, err)
	return a, b
}

// writeBytes sends bytes unchanged, with one call.
func (p *rawPeer) writeBytes(parts ...[]byte) {
	p.t.Helper()
	var all []byte
	for _, b := range parts {
		all = append(all, b...)
	}
	_ = p.nc.SetWriteDeadline(time.Now().Add(testTimeout))
	_, err := p.nc.Write(all)
	require.NoError(p.t, err)
}

// sendSegments sends DDP segments, each in an FPDU, with one call.
func (p *rawPeer) sendSegments(segments ...[]byte) {
	p.t.Helper()
	var all []byte
	for _, s := range segments {
		all = append(all, p.frameFPDU(s)...)
	}
	p.writeBytes(all)
}

// frameFPDU frames the DDP segment that is sent next.
func (p *rawPeer) frameFPDU(segment []byte) []byte {
	p.to.CRC = p.crc
	return p.to.Frame(segment)
}

// readBytes reads n bytes.
func (p *rawPeer) readBytes(n int) []byte {
	p.t.Helper()
	b := make([]byte, n)
	_ = p.nc.SetReadDeadline(time.Now().Add(testTimeout))
	_, err := io.ReadFull(p.nc, b)
	require.NoError(p.t, err)
	return b
}

// readSegment reads an FPDU, checks its Markers, padding and CRC (R5044-4.1-3,
// R5044-4.3-2, R5044-4.4-8), and returns the DDP segment.
func (p *rawPeer) readSegment() []byte {
	p.t.Helper()
	p.from.CRC = p.crc
	data := p.readBytes(4) // the start of an FPDU, or a Marker
	for {
		segment, n, err := p.from.Cut(data)
		require.NoError(p.t, err)
		if n > 0 {
			return segment
		}
		data = append(data, p.readBytes(p.from.Lacks(data))...)
	}
}

// expectSilence checks that no byte arrives for a while.
func (p *rawPeer) expectSilence(while time.Duration) {
	p.t.Helper()
	_ = p.nc.SetReadDeadline(time.Now().Add(while))
	n, err := p.nc.Read(make([]byte, 1))
	require.ErrorIs(p.t, err, os.ErrDeadlineExceeded, "%d bytes came", n)
}

// expectEOF checks that the stream ends gracefully, with nothing before the end, and
// closes the connection.
func (p *rawPeer) expectEOF() {
	p.t.Helper()
	_ = p.nc.SetReadDeadline(time.Now().Add(testTimeout))
	rest, err := io.ReadAll(p.nc)
	require.NoError(p.t, err)
	require.Empty(p.t, rest)
	p.nc.Close()
}

// expectReset checks that the stream ends with a reset, with nothing before it.
func (p *rawPeer) expectReset() {
	p.t.Helper()
	_ = p.nc.SetReadDeadline(time.Now().Add(testTimeout))
	_, err := p.nc.Read(make([]byte, 1))
	require.ErrorIs(p.t, err, unix.ECONNRESET)
}

// readTerminate reads a Terminate, which must be the next and last message of the
// stream (R5040-5.4-9).
func (p *rawPeer) readTerminate() rdmap.Terminate {
	p.t.Helper()
	t := parseTerminate(p.t, p.readSegment())
	p.expectEOF()
	return t
}

// parseTerminate decodes the segment of a Terminate.
func parseTerminate(t testing.TB, segment []byte) rdmap.Terminate {
	t.Helper()
	h, body, err := ddp.ParseUntagged(segment)
	require.NoError(t, err)
	op, err := rdmap.CheckUntagged(h)
	require.NoError(t, err)
	require.Equal(t, rdmap.OpTerminate, op)
	// R5040-5.4-1, R5040-5.4-2, R5040-5.4-3: untagged, queue 2, the first there.
	require.Equal(t, ddp.Untagged{Last: true, RsvdULP: 0x47, QN: rdmap.QueueTerminate, MSN: 1}, h)
	term, err := rdmap.ParseTerminate(body)
	require.NoError(t, err)
	require.NotEqual(t, rdmap.LayoutSiw, term.Layout)
	return term
}

// expectReadRequest reads an RDMA Read Request.
func (p *rawPeer) expectReadRequest() rdmap.ReadRequest {
	p.t.Helper()
	h, body, err := ddp.ParseUntagged(p.readSegment())
	require.NoError(p.t, err)
	op, err := rdmap.CheckUntagged(h)
	require.NoError(p.t, err)
	require.Equal(p.t, rdmap.OpReadRequest, op)
	req, err := rdmap.ParseReadRequest(body)
	require.NoError(p.t, err)
	return req
}

// expectAtomicRequest reads an Atomic Request, and returns its MSN too.
func (p *rawPeer) expectAtomicRequest() (rdmap.AtomicRequest, uint32) {
	p.t.Helper()
	h, body, err := ddp.ParseUntagged(p.readSegment())
	require.NoError(p.t, err)
	op, err := rdmap.CheckUntagged(h)
	require.NoError(p.t, err)
	require.Equal(p.t, rdmap.OpAtomicRequest, op)
	req, err := rdmap.ParseAtomicRequest(body)
	require.NoError(p.t, err)
	return req, h.MSN
}

// expectAtomicResponse reads an Atomic Response, which must have the given MSN.
func (p *rawPeer) expectAtomicResponse(msn uint32) rdmap.AtomicResponse {
	p.t.Helper()
	segment := p.readSegment()
	resp, err := rdmap.ParseAtomicResponse(segment[ddp.UntaggedLen:])
	require.NoError(p.t, err)
	// R7306-5-6, R7306-5.2-2, R7306-5.2.2-1-1, R7306-5.2.2-2-1, R7306-5.2.2-3-1
	require.Equal(p.t, atomicResponseSeg(msn, resp), segment)
	return resp
}

// readResponse reads all segments of an RDMA Read Response, which must be
// contiguous, and returns the first header and the data.
func (p *rawPeer) readResponse() (ddp.Tagged, []byte) {
	p.t.Helper()
	var first ddp.Tagged
	var all []byte
	for {
		h, payload, err := ddp.ParseTagged(p.readSegment())
		require.NoError(p.t, err)
		op, err := rdmap.CheckTagged(h)
		require.NoError(p.t, err)
		require.Equal(p.t, rdmap.OpReadResponse, op)
		if all == nil {
			first = h
		}
		assert.Equal(p.t, first.STag, h.STag)
		assert.Equal(p.t, first.TO+uint64(len(all)), h.TO)
		if all = append(all, payload...); h.Last {
			return first, all
		}
	}
}

// expectEnd checks that the stream ends without further bytes, by a FIN or a
// reset.
func (p *rawPeer) expectEnd() {
	p.t.Helper()
	_ = p.nc.SetReadDeadline(time.Now().Add(testTimeout))
	n, err := p.nc.Read(make([]byte, 1))
	require.Zero(p.t, n)
	require.Error(p.t, err)
	require.False(p.t, isTimeout(err))
}
