package iwarp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// sinkChecks are the checks in RFC 5041, Section 7.1, with the numbers from
// Section 7.2. The memory has 16 bytes at TO 0. A single 8 byte receive is
// posted.
var sinkChecks = []struct {
	name       string
	send       func(stag, foreign, readOnly rdma.STag) []byte
	kind, code uint8
}{
	{"R5041-7.1-U1-1 QN", func(_, _, _ rdma.STag) []byte { return withWord(sendSeg(true, 1, 0, []byte("x")), 6, 4) }, 2, 1},
	{"R5041-7.1-U2-1 no buffer", func(_, _, _ rdma.STag) []byte { return sendSeg(true, 2, 0, []byte("x")) }, 2, 2},
	{"R5041-7.1-U2-2 no buffer, not to be asked for twice", func(_, _, _ rdma.STag) []byte { return sendSeg(false, 2, 0, []byte("x")) }, 2, 2},
	{"R5041-7.1-U3-1 MO", func(_, _, _ rdma.STag) []byte { return sendSeg(true, 1, 9, []byte("x")) }, 2, 4},
	{"R5041-7.1-U4-1 MO and length", func(_, _, _ rdma.STag) []byte { return sendSeg(true, 1, 0, []byte("123456789")) }, 2, 5},
	{"R5041-7.1-U5-1 MSN behind", func(_, _, _ rdma.STag) []byte { return sendSeg(true, 0, 0, []byte("x")) }, 2, 3},
	{"R5041-7.1-U5-1 MSN ahead", func(_, _, _ rdma.STag) []byte { return sendSeg(true, 3, 0, []byte("x")) }, 2, 3},
	{"R5041-4.1-11 DV, untagged", func(_, _, _ rdma.STag) []byte { return withByte(sendSeg(true, 1, 0, []byte("x")), 0, 0x40) }, 2, 6},
	{"R5041-7.1-T1-1 STag", func(_, _, _ rdma.STag) []byte { return writeSeg(true, 0, 0, []byte("x")) }, 1, 0}, // R5041-4.2-5
	{"R5041-7.1-T2-1 no right", func(_, _, ro rdma.STag) []byte { return writeSeg(true, ro, 0, []byte("x")) }, 1, 0},
	{"R5041-7.1-T3-1 TO", func(s, _, _ rdma.STag) []byte { return writeSeg(true, s, 16, []byte("x")) }, 1, 1},
	{"R5041-7.1-T4-1 TO and length", func(s, _, _ rdma.STag) []byte { return writeSeg(true, s, 15, []byte("xx")) }, 1, 1},
	{"R5041-7.1-T5-1 wrap", func(s, _, _ rdma.STag) []byte { return writeSeg(true, s, math.MaxUint64, []byte("xx")) }, 1, 3},
	{"R5041-7.1-1 Stream", func(_, f, _ rdma.STag) []byte { return writeSeg(true, f, 0, []byte("x")) }, 1, 2},
	{"R5041-4.1-11 DV, tagged", func(s, _, _ rdma.STag) []byte { return withByte(writeSeg(true, s, 0, []byte("x")), 0, 0xc2) }, 1, 4},
}

// TestDDPSinkChecks checks that each check finds its error. Afterwards nothing
// is placed or delivered any more, the upper layer is informed, and the peer
// gets one last message with the number, the header and the length (RFC 5041,
// Sections 6.2.2 and 7).
func TestDDPSinkChecks(t *testing.T) {
	for _, tt := range sinkChecks {
		t.Run(tt.name, func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true, recvs: 1, recvSize: 8})
			other, _ := connectRaw(t, rawOptions{})
			mem := make([]byte, 48)
			region := func(e endpoint, at int, access rdma.Access) rdma.STag {
				r, err := e.Register(mem[at:at+16:at+16], access)
				require.NoError(t, err)
				return r.STag()
			}
			mine, foreign, readOnly := region(e, 0, rdma.RemoteWrite), region(other, 16, rdma.RemoteWrite), region(e, 32, rdma.RemoteRead)
			bad := tt.send(mine, foreign, readOnly)
			var segments [][]byte
			if tt.code == 2 && tt.kind == 2 {
				segments = append(segments, sendSeg(true, 1, 0, nil)) // takes the buffer
			}
			segments = append(segments, bad, writeSeg(true, mine, 0, []byte("late")), sendSeg(true, 1, 0, []byte("late")))
			done := make(completionWaiter, 1)
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{{0}}, Done: done}))
			p.expectReadRequest()
			p.sendSegments(segments...)

			term := p.readTerminate() // R5041-7.1-5, R5041-6.2.2-3, and then the FIN
			assert.Equal(t, rdmap.Error{Layer: rdmap.LayerDDP, Type: tt.kind, Code: tt.code}, term.Cause)
			assert.Equal(t, bad[:ddp.HeaderLen(bad[0])], term.DDPHeader) // R5041-7.1-3
			assert.True(t, term.HasLength)
			assert.EqualValues(t, len(bad), term.SegmentLen)
			assert.ErrorIs(t, done.wait(t).Err, rdma.ErrFlushed) // R5041-6.2.2-2
			for len(e.inbox.recvs) > 0 {
				assert.Empty(t, e.inbox.nextMessage(t)) // not the late message: R5041-7.1-4
			}
			requireFault(t, e.inbox.closeError(t), false, term.Cause) // R5041-8.3-5-1
			assert.Equal(t, make([]byte, 48), mem)                    // R5041-7.1-2, R5041-7.1-4
			assert.ErrorIs(t, e.Post(rdma.WR{}), rdma.ErrClosed)      // R5041-3-8-1
			require.NoError(t, e.Close())
			_, err := e.sock.read([][]byte{make([]byte, 1)}, new(waitBudget))
			assert.Error(t, err)
			e.sock.tcp.withFD(func(int) { assert.Fail(t, "TCP is open") }) // R5041-3-10-1, R5041-6.2-2
		})
	}
}

// TestDDPSinkPlacesNoPart checks that a segment that does not fit changes
// nothing, and that earlier data stays (R5041-7.1-2, R5041-8.1-1).
func TestDDPSinkPlacesNoPart(t *testing.T) {
	for _, crc := range []bool{false, true} {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{crc: crc})
		mem := make([]byte, 16)
		r, err := e.Register(mem[4:12], rdma.RemoteWrite)
		require.NoError(t, err)
		p.sendSegments(
			writeSeg(false, r.STag(), 0, []byte("ab")), // R5041-5.2-4
			writeSeg(true, r.STag(), 2, bytes.Repeat([]byte{0xee}, 7)),
		)
		assert.ErrorIs(t, p.readTerminate().Cause, ddp.ErrBounds)
		e.inbox.closeError(t)
		assert.Equal(t, "\x00\x00\x00\x00ab\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", string(mem))
	}
}

// TestDDPSinkDelivers checks that only the T bit selects the buffer kind, that
// the last segment determines a message's delivered attributes, and that
// messages arrive in order (R5041-5.3-6).
func TestDDPSinkDelivers(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{recvs: 4})
	mem := make([]byte, 8)
	r, err := e.Register(mem, rdma.RemoteWrite)
	require.NoError(t, err)
	se := withByte(sendSeg(true, 2, 2, []byte("cd")), 1, 0x45)
	inv := invalidateSeg(3, r.STag(), nil)
	p.sendSegments(
		writeSeg(false, r.STag(), 1, []byte("tag")), // R5041-4.1-1, R5041-4.2-8: any TO
		writeSeg(true, r.STag(), 4, []byte("ged")),
		sendSeg(true, 1, 0, bytes.Repeat([]byte{7}, 301)), // R5041-4.1-2
		sendSeg(false, 2, 0, []byte("ab")), se,            // R5041-4.3-3: the last RsvdULP counts
		inv,
	)
	assert.Len(t, e.inbox.nextMessage(t), 301)     // R5041-5.4-2, R5041-3-7-1: the segment's length determines the message's
	assert.Equal(t, "\x00tagged\x00", string(mem)) // R5041-4.1-7: placed before the next message is delivered
	m := e.inbox.nextRecv(t)
	assert.Equal(t, "abcd", string(m.Buf.B))
	assert.True(t, m.Solicited) // R5041-5.4-3
	m.Buf.Release()
	m = e.inbox.nextRecv(t)
	assert.Equal(t, r.STag(), m.Invalidated) // R5041-4.3-2, R5041-5.4-3: all 40 bits
	m.Buf.Release()
}

// TestDDPSinkWaits checks that a message is delivered only after its last
// segment and all earlier segments have arrived (R5041-5.4-1, R5041-4.1-7,
// R5040-5.5-16-1).
func TestDDPSinkWaits(t *testing.T) {
	segments := [][]byte{
		sendSeg(false, 1, 0, []byte("ab")),
		sendSeg(false, 1, 2, []byte("cd")),
		sendSeg(true, 1, 4, nil),
	}
	inBubbleWait(t, segments, func(t *testing.T, e endpoint, sent int) {
		if sent < len(segments) {
			assert.Empty(t, e.inbox.recvs, "%d segments", sent)
			return
		}
		assert.Equal(t, "abcd", string(e.inbox.nextMessage(t)))
	})
	gap := [][]byte{segments[0], segments[2]} // the middle segment is withheld
	inBubbleWait(t, gap, func(t *testing.T, e endpoint, sent int) { assert.Empty(t, e.inbox.recvs) })
}

// TestDDPReceivesApart checks that each connection has its own receives: a peer
// that uses up its receives, or never ends a message, takes nothing from the
// others (R5041-8.3.2-5-2, R5040-8.1.2-8-1).
func TestDDPReceivesApart(t *testing.T) {
	checkLeaks(t)
	greedy, p := connectRaw(t, rawOptions{recvs: 2})
	other, q := connectRaw(t, rawOptions{recvs: 2})
	p.sendSegments(sendSeg(true, 1, 0, nil), sendSeg(false, 2, 0, []byte("never")))
	greedy.inbox.nextMessage(t)
	q.sendSegments(sendSeg(true, 1, 0, []byte("a")), sendSeg(true, 2, 0, []byte("b")))
	assert.Equal(t, "a", string(other.inbox.nextMessage(t)))
	assert.Equal(t, "b", string(other.inbox.nextMessage(t)))
	p.sendSegments(sendSeg(true, 2, 5, nil), sendSeg(true, 3, 0, nil))
	assert.ErrorIs(t, p.readTerminate().Cause, ddp.ErrNoBuffer)
	greedy.inbox.closeError(t)
	q.sendSegments(requestSeg(1, rdmap.ReadRequest{}))
	q.readResponse()
}

// TestDDPRegister checks that the peer reaches exactly the registered memory,
// only from Register to Deregister, and that each TO range is a separate region
// (R5041-8.3-1-1, R5041-8.3-2-1, R5041-8.3-4-1, R5041-8.3.1-4-1).
func TestDDPRegister(t *testing.T) {
	for _, dead := range []bool{false, true} {
		t.Run(fmt.Sprintf("deregistered %v", dead), func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{recvs: 1})
			mem := make([]byte, 8)
			front, err := e.Register(mem[:4], rdma.RemoteWrite)
			require.NoError(t, err)
			back, err := e.Register(mem[4:], rdma.RemoteWrite)
			require.NoError(t, err)
			p.sendSegments(writeSeg(true, front.STag(), front.TO(), []byte("1234")), writeSeg(true, back.STag(), back.TO(), []byte("5678")), sendSeg(true, 1, 0, nil))
			e.inbox.nextMessage(t)
			require.Equal(t, "12345678", string(mem))
			if !dead {
				p.sendSegments(writeSeg(true, front.STag(), front.TO()+4, []byte("x"))) // changes back's byte, not front's
				assert.ErrorIs(t, p.readTerminate().Cause, ddp.ErrBounds)
			} else {
				back.Deregister()
				p.sendSegments(writeSeg(true, back.STag(), back.TO(), []byte("x")))
				assert.ErrorIs(t, p.readTerminate().Cause, ddp.ErrInvalidSTag)
			}
			e.inbox.closeError(t)
			assert.Equal(t, "12345678", string(mem))
		})
	}
}

// TestDDPFatal checks that fatal errors are reported: the connection's loss, an
// MPA error, a wrong header; outstanding requests end with the error
// (R5041-6.2.2-1, R5041-6.2.2-2).
func TestDDPFatal(t *testing.T) {
	broken := frameFPDU(true, sendSeg(true, 1, 0, nil))
	broken[3] ^= 1
	for name, tt := range map[string]struct {
		do   func(p *rawPeer)
		want func(err error) bool
	}{
		"connection lost": {func(p *rawPeer) { p.writeBytes(broken[:7]); p.nc.Close() }, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) }},
		"error of MPA":    {func(p *rawPeer) { p.writeBytes(broken); p.readTerminate() }, isFault},
		"invalid header":  {func(p *rawPeer) { p.sendSegments(sendSeg(true, 9, 0, nil)); p.readTerminate() }, isFault},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true, crc: true})
			done := make(completionWaiter, 2)
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{{0}}, Done: done}, rdma.WR{Op: rdma.OpSend, Fence: true, Done: done}))
			p.expectReadRequest()
			tt.do(p)
			for range 2 {
				assert.ErrorIs(t, done.wait(t).Err, rdma.ErrFlushed)
			}
			err := e.inbox.closeError(t)
			assert.True(t, tt.want(err), "%v", err)
		})
	}
}
