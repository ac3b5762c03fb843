package iwarp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// TestGoldenMarkers checks, byte for byte, the stream that work requests
// produce with Markers, as in RFC 5044, Figures 5 and 6 (R5044-4.2-1,
// R5044-4.2-2, R5044-4.3-1, R5044-4.3-3, R5044-4.3-5, R5044-4.3-6, R5044-4.4-9,
// R5044-4.4-10, R5044-7.1.2-7-1).
func TestGoldenMarkers(t *testing.T) {
	checkLeaks(t)
	post := func(e endpoint, n int) {
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{make([]byte, n)}}))
	}
	e, p := connectRaw(t, rawOptions{initiator: true, crc: true, markers: true})
	post(e, 24)
	figure5 := wiretest.Hex(t, "mpa/testdata/fpdu-figure5.hex")
	assert.Equal(t, figure5, p.readBytes(len(figure5)))

	e, p = connectRaw(t, rawOptions{initiator: true, crc: true, markers: true})
	post(e, 464)
	p.readBytes(492) // "which is not shown here"
	post(e, 24)
	figure6 := wiretest.Hex(t, "mpa/testdata/fpdu-figure6.hex")
	assert.Equal(t, figure6, p.readBytes(len(figure6)))
}

// TestGoldenMarkersReceived receives Figure 6's bytes.
func TestGoldenMarkersReceived(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{crc: true, markers: true, recvs: 2, recvSize: 500})
	first := p.frameFPDU(sendSeg(true, 1, 0, make([]byte, 464)))
	require.Len(t, first, 492)
	p.writeBytes(first, wiretest.Hex(t, "mpa/testdata/fpdu-figure6.hex"))
	assert.Equal(t, make([]byte, 464), e.inbox.nextMessage(t))
	assert.Equal(t, make([]byte, 24), e.inbox.nextMessage(t)) // R5044-4.3-10
}

// TestMarkersNegotiated checks that each end decides whether it receives
// Markers, in either role and revision: R5044-4.3-1, R5044-7.1.1-5,
// R5044-7.1.1-6, R5044-7.1.1-7.
func TestMarkersNegotiated(t *testing.T) {
	flag := func(markers bool) byte { return map[bool]byte{true: 0x80}[markers] }
	for bits := range 8 {
		ours, theirs, unenhanced := bits&1 != 0, bits&2 != 0, bits&4 != 0
		cfg := Config{CRC: mpa.CRCOff, Markers: ours, Unenhanced: unenhanced}
		frame := func(reply bool) []byte {
			if unenhanced {
				return plainFrame(reply, flag(theirs))
			}
			return enhancedFrame(reply, 0x10|flag(theirs), 1, 1)
		}
		talk := func(t *testing.T, e endpoint, p *rawPeer) {
			assert.Equal(t, [2]bool{theirs, ours}, [2]bool{e.Params().SendMarkers, e.Params().RecvMarkers})
			p.to.Markers, p.from.Markers = ours, theirs
			for msn := range uint32(3) {
				body := patternBytes(300)
				p.sendSegments(sendSeg(true, msn+1, 0, body))
				assert.Equal(t, body, e.inbox.nextMessage(t))
				require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{body}}))
				assert.Equal(t, sendSeg(true, msn+1, 0, body), p.readSegment())
			}
		}
		name := fmt.Sprintf("ours %v, theirs %v, unenhanced %v", ours, theirs, unenhanced)
		t.Run("responder, "+name, func(t *testing.T) {
			checkLeaks(t)
			ln, p := rawInitiator(t, cfg)
			p.writeBytes(frame(false))
			e := acceptPeer(t, ln, rdma.ConnConfig{Recvs: 3})
			reply := p.readBytes(len(frame(true)))
			assert.Equal(t, flag(ours), reply[16]&0x80)
			talk(t, e, p)
		})
		t.Run("initiator, "+name, func(t *testing.T) {
			checkLeaks(t)
			in := newInbox()
			p, req, result := rawResponder(t, cfg, rdma.ConnConfig{Handler: in, Recvs: 3})
			assert.Equal(t, ours, req.Markers)
			p.writeBytes(frame(true))
			got := <-result
			require.NoError(t, got.err)
			talk(t, endpoint{got.c, in}, p)
			require.NoError(t, got.closeResult(t))
		})
	}
}

// TestMarkerWaits checks that a responder sends no Marker either before it has
// received a valid FPDU (R5044-7.1.2-4-1).
func TestMarkerWaits(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{markers: true})
	require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{{1}}}))
	fpdu := p.frameFPDU(writeSeg(true, 0, 0, nil))
	p.writeBytes(fpdu[:len(fpdu)-1])
	p.expectSilence(10 * time.Millisecond)
	p.writeBytes(fpdu[len(fpdu)-1:])
	assert.Equal(t, sendSeg(true, 1, 0, []byte{1}), p.readSegment())
}

// TestMarkerFaults checks that any Marker which disagrees with the lengths is
// error 3, and that a Marker corrupted in transit is error 2. Nothing after the
// Marker is delivered, and a Terminate is sent (R5044-5.2-2, R5044-8-1,
// R5044-8-2, R5044-8-3-1, R5044-8-4, R5044-8-5).
func TestMarkerFaults(t *testing.T) {
	const size = 1300
	for name, tt := range map[string]struct {
		crc, again bool // again: the CRC is recomputed
		cause      mpa.Error
	}{
		"no CRC":      {false, false, mpa.ErrFPDUStart},
		"CRC is good": {true, true, mpa.ErrFPDUStart}, // R5044-4.4-11
		"CRC is bad":  {true, false, mpa.ErrCRC},      // R5044-4.4-10
	} {
		for which := range 3 {
			for bit := 2; bit < 16; bit++ {
				t.Run(fmt.Sprintf("%s, Marker %d, bit %d", name, which, bit), func(t *testing.T) {
					checkLeaks(t)
					e, p := connectRaw(t, rawOptions{crc: tt.crc, markers: true, recvs: 3, recvSize: size})
					p.sendSegments(sendSeg(true, 1, 0, make([]byte, 464))) // 492 bytes
					e.inbox.nextMessage(t)
					fpdu := p.frameFPDU(sendSeg(true, 2, 0, make([]byte, size)))
					fpdu[512-492+512*which+3-bit/8] ^= 1 << (bit % 8)
					if tt.again {
						updateFPDUCRC(fpdu)
					}
					p.writeBytes(fpdu, p.frameFPDU(sendSeg(true, 3, 0, nil)))
					assert.Equal(t, tt.cause, mpa.Error(p.readTerminate().Cause.Code))
					require.ErrorIs(t, e.inbox.closeError(t), tt.cause)
					assert.Empty(t, e.inbox.recvs)
				})
			}
		}
	}
}

// updateFPDUCRC recomputes an FPDU's CRC.
func updateFPDUCRC(fpdu []byte) {
	end := len(fpdu) - mpa.CRCLen
	binary.LittleEndian.PutUint32(fpdu[end:], mpa.UpdateCRC(0, fpdu[:end]))
}

// TestMarkerFaultPlacesNothing checks that no data in an FPDU is placed if its
// start is in doubt and CRCs are on, or if the Marker arrives with the header
// (R5044-6-1).
func TestMarkerFaultPlacesNothing(t *testing.T) {
	for _, crc := range []bool{false, true} {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{initiator: true, crc: crc, markers: true})
		mem := make([]byte, 1300)
		r, err := e.Register(mem, rdma.RemoteWrite)
		require.NoError(t, err)
		fpdu := p.frameFPDU(writeSeg(true, r.STag(), 0, bytes.Repeat([]byte{0xee}, len(mem))))
		fpdu[512+2] ^= 1
		if crc {
			updateFPDUCRC(fpdu)
		}
		p.writeBytes(fpdu)
		assert.Equal(t, mpa.ErrFPDUStart, mpa.Error(p.readTerminate().Cause.Code))
		e.inbox.closeError(t)
		assert.Equal(t, make([]byte, len(mem)), mem)
		r.Deregister()
	}
}

// TestMarkerReserved checks that a Marker's reserved bits, and the two lowest
// bits, are ignored (R5044-4.2-3, R5044-4.2-4).
func TestMarkerReserved(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{markers: true, recvs: 1, recvSize: 600})
	fpdu := p.frameFPDU(sendSeg(true, 1, 0, patternBytes(600)))
	for at := 0; at < len(fpdu); at += 512 {
		fpdu[at], fpdu[at+1] = 0xff, 0xff
		fpdu[at+3] |= 3
	}
	p.writeBytes(fpdu)
	assert.Equal(t, patternBytes(600), e.inbox.nextMessage(t))
}

// bytesInside returns how many bytes in a system call's vectors lie in mem.
func bytesInside(d *direction, mem []byte) (n int) {
	lo := uintptr(unsafe.Pointer(&mem[0]))
	for _, v := range d.iov {
		if at := uintptr(unsafe.Pointer(v.Base)); at >= lo && at < lo+uintptr(len(mem)) {
			n += int(v.Len)
		}
	}
	return n
}

// TestMarkersPlaceDirectly checks that with Markers too, payload is read from
// the socket directly into its destination and written directly from its
// source, without a copy.
func TestMarkersPlaceDirectly(t *testing.T) {
	checkLeaks(t)
	const size = 60_000
	mem, src := make([]byte, size), patternBytes(size)
	read, written := 0, 0
	e, p := connectRaw(t, rawOptions{initiator: true, markers: true, before: func(c *Conn) {
		c.mulpdu = mpa.MaxULPDU
		for d, n := range map[*direction]*int{&c.sock.tcp.rd: &read, &c.sock.tcp.wr: &written} {
			call, memory := d.call, map[*int][]byte{&read: mem, &written: src}[n]
			d.call = func(flags int) (int, unix.Errno) {
				*n = max(*n, bytesInside(d, memory))
				return call(flags)
			}
		}
	}})
	r, err := e.Register(mem, rdma.RemoteWrite)
	require.NoError(t, err)
	p.sendSegments(writeSeg(true, r.STag(), 0, patternBytes(size)))
	require.NoError(t, e.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{src[:size/3], src[size/3:]}}))
	assert.Equal(t, writeSeg(true, 0, 0, src), p.readSegment())
	p.nc.Close()
	e.inbox.closeError(t)
	r.Deregister()
	assert.Equal(t, patternBytes(size), mem)
	assert.GreaterOrEqual(t, read, size-stagingSize)
	assert.Equal(t, size, written)
}

// TestMarkersSystemCalls checks that work requests posted together are sent
// with one system call, Markers included.
func TestMarkersSystemCalls(t *testing.T) {
	checkLeaks(t)
	calls := 0
	e, p := connectRaw(t, rawOptions{initiator: true, crc: true, markers: true, before: func(c *Conn) {
		send := c.sock.tcp.wr.call
		c.sock.tcp.wr.call = func(flags int) (int, unix.Errno) { calls++; return send(flags) }
	}})
	done := make(completionWaiter, 1)
	write := rdma.WR{Op: rdma.OpWrite, Data: [][]byte{patternBytes(48 << 10), {1}}}
	require.NoError(t, e.Post(write, write, rdma.WR{Op: rdma.OpSend, Data: [][]byte{{1}}, Done: done}))
	require.NoError(t, done.wait(t).Err)
	assert.Equal(t, 1, calls)
	for range 3 {
		p.readSegment()
	}
}

// TestStallBehindMarker checks that a peer which stops after a Marker has
// stopped within an FPDU (R5044-7.1.2-10-2), and that a stream which ends there
// is truncated.
func TestStallBehindMarker(t *testing.T) {
	for _, first := range []bool{true, false} { // the first Marker
		for n := range 5 {
			for _, cut := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					e, p := connectRaw(t, rawOptions{pipe: true, markers: true, recvs: 1, recvSize: 484})
					var data []byte
					if !first {
						data = p.frameFPDU(sendSeg(true, 1, 0, make([]byte, 484)))
						require.Len(t, data, 512)
					}
					p.writeBytes(data, make([]byte, n))
					synctest.Wait()
					if cut {
						p.nc.Close()
						require.ErrorIs(t, e.inbox.closeError(t), map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[n == 0])
						return
					}
					time.Sleep(stallTimeout + time.Second)
					synctest.Wait()
					if n == 0 {
						assert.Empty(t, e.inbox.closed)
						return
					}
					assert.True(t, isTimeout(e.inbox.closeError(t)), "%d bytes", n)
				})
			}
		}
	}
}

// TestCutBehindMarker checks the same if the Marker arrives with the previous
// FPDU, in one system call.
func TestCutBehindMarker(t *testing.T) {
	for n := range 5 {
		for _, crc := range []bool{false, true} {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{crc: crc, markers: true, recvs: 1, recvSize: 484})
			p.writeBytes(p.frameFPDU(sendSeg(true, 1, 0, make([]byte, 484))), make([]byte, n))
			e.inbox.nextMessage(t)
			require.NoError(t, p.nc.(*net.TCPConn).CloseWrite())
			require.ErrorIs(t, e.inbox.closeError(t), map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[n == 0])
		}
	}
}

// TestMarkersSent sends messages with many lengths, so that Markers fall
// everywhere: before FPDUs, into them, and before their CRC (R5044-4.3-2,
// R5044-4.4-10).
func TestMarkersSent(t *testing.T) {
	for _, crc := range []bool{false, true} {
		checkLeaks(t)
		e, p := connectRaw(t, rawOptions{initiator: true, crc: crc, markers: true})
		for n := range uint32(700) {
			body := patternBytes(int(n))
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{body[:n/2], body[n/2:]}}))
			require.Equal(t, sendSeg(true, n+1, 0, body), p.readSegment())
		}
	}
}

// TestMarkersAllocs checks that sending and receiving with Markers allocates
// nothing.
func TestMarkersAllocs(t *testing.T) {
	checkLeaks(t)
	cfg := Config{CRC: mpa.CRCOff, Markers: true}
	rq := rdma.NewReceiveQueue()
	o := pairOptions{initiator: cfg, responder: cfg, recvs: 10_000, recvSize: 1000}
	o.handlers[1] = rq
	a, _ := connectPair(t, o)
	wr := rdma.WR{Op: rdma.OpSend, Data: [][]byte{make([]byte, 1000)}}
	once := func() {
		_ = a.Post(wr)
		m, err := rq.Wait(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		m.Buf.Release()
	}
	once()
	assert.LessOrEqual(t, testing.AllocsPerRun(2000, once), racetest.PoolLosses(5))
}

// FuzzMarkers checks that FPDUs with Markers, whatever their lengths and the
// TCP segments' lengths, yield the same messages as without Markers, with and
// without CRCs.
func FuzzMarkers(f *testing.F) {
	f.Add(true, []byte{1, 2, 3}, []byte{7, 100})
	f.Add(false, []byte{255, 0, 0, 90}, []byte{1})
	f.Fuzz(func(t *testing.T, crc bool, lengths, pieces []byte) {
		e, p := connectRaw(t, rawOptions{pipe: true, crc: crc, markers: true, recvs: 64, recvSize: 2000})
		var data []byte
		var want [][]byte
		for i, n := range lengths[:min(len(lengths), 64)] {
			want = append(want, patternBytes(int(n)*7))
			data = append(data, p.frameFPDU(sendSeg(true, uint32(i)+1, 0, want[i]))...)
		}
		for i := 0; len(data) > 0; i++ {
			n := len(data)
			if i < len(pieces) {
				n = min(n, 1+int(pieces[i]))
			}
			p.writeBytes(data[:n])
			data = data[n:]
		}
		for _, body := range want {
			require.True(t, bytes.Equal(body, e.inbox.nextMessage(t)))
		}
		p.nc.Close()
		e.inbox.closeError(t)
	})
}
