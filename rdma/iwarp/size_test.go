package iwarp

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// TestLargestFPDU checks that FPDUs are accepted up to the length field's
// maximum, more than this package ever sends (R5044-3-7).
func TestLargestFPDU(t *testing.T) {
	for _, o := range streams {
		checkLeaks(t)
		o.recvs, o.recvSize = 2, 1<<17
		e, p := connectRaw(t, o)
		mem := make([]byte, 1<<17)
		r, err := e.Register(mem, rdma.RemoteWrite)
		require.NoError(t, err)
		write, send := patternBytes(65535-14), patternBytes(65535-18)
		// The small FPDUs vary the large ones' offset in the staging buffer.
		for i := range 5 {
			p.sendSegments(writeSeg(true, r.STag(), uint64(i), write), writeSeg(true, 0, 0, nil))
		}
		p.sendSegments(sendSeg(false, 1, 0, send), writeSeg(true, 0, 0, nil), sendSeg(true, 1, uint32(len(send)), send))
		assert.Equal(t, append(send, send...), e.inbox.nextMessage(t))
		assert.Equal(t, write, mem[4:][:len(write)])
		r.Deregister()
	}
}

// pairWithMSS is ncPair with a maximum segment size; 0 means the loopback's
// own.
func pairWithMSS(t testing.TB, mss int) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		if mss == 0 {
			return nil
		}
		return c.Control(func(fd uintptr) {
			require.NoError(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, mss))
		})
	}}
	a, err = d.DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	return a, b
}

// TestMULPDU checks that no ULPDU exceeds MULPDU and only the last is shorter,
// and that each FPDU fits a TCP segment together with its Markers (R5041-3-1-1,
// R5044-3-1, R5044-3-2, R5044-3-3, R5044-3-4, R5044-3-5, R5044-4.3-2,
// R5044-4.5-1, R5044-4.5-2, R5044-4.5-4, R5044-4.5-6, R5044-5.1-1,
// R5044-5.1-3).
func TestMULPDU(t *testing.T) {
	for _, mss := range []int{0, 500, 1460, 9000} {
		for _, markers := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, markers %v", mss, markers), func(t *testing.T) {
				checkLeaks(t)
				a, b := pairWithMSS(t, mss)
				c := testDevice.newConn(newSocket(a), mpa.Params{SendMarkers: markers}, mpa.Frame{}, rdma.ConnConfig{Handler: newInbox()}, false)
				c.startReader()
				p := &rawPeer{t: t, nc: b}
				p.from.Markers = markers

				emss := c.sock.tcp.emss()
				if mss > 0 {
					require.LessOrEqual(t, emss, mss)
				}
				require.Equal(t, mpa.MULPDU(emss, markers), c.mulpdu)
				want := patternBytes(200_000)
				// The first message is short; it must not affect the next
				// (R5044-4.5-6).
				require.NoError(t, c.Post(rdma.WR{Op: rdma.OpWrite}, rdma.WR{Op: rdma.OpSend, Data: [][]byte{want}}))
				p.readSegment()
				var got []byte
				for last := false; !last; {
					start := p.from.At
					segment := p.readSegment()
					last = segment[0]&0x40 != 0
					assert.LessOrEqual(t, p.from.At-start, emss)
					if !last {
						assert.Equal(t, c.mulpdu, len(segment))
					}
					got = append(got, segment[18:]...)
				}
				assert.Equal(t, want, got)
				assert.Equal(t, 1, socketOption(t, c, unix.IPPROTO_TCP, unix.TCP_NODELAY)) // R5044-5.1-2
				closed := runAsyncErr(c.Close)
				p.expectEOF()
				require.NoError(t, <-closed)
			})
		}
	}
}

// TestLongFPDUs checks that peers known to parse FPDUs from a byte stream get
// FPDUs with the maximum length (R5044-3-5), and that all other peers get FPDUs
// that fit a TCP segment.
func TestLongFPDUs(t *testing.T) {
	siw := wiretest.Hex(t, "mpa/testdata/request-siw.hex")
	for name, tt := range map[string]struct {
		request []byte
		cfg     Config
		long    bool
	}{
		"siw":               {siw, Config{CRC: mpa.CRCAuto}, true},
		"ourselves":         {mpa.NewRequest(mpa.Local{CRC: mpa.CRCOff, IRD: 1, ORD: 1}).AppendTo(nil), Config{}, true},
		"CRC":               {wiretest.Hex(t, "mpa/testdata/request-siw-crc.hex"), Config{}, false},
		"peer-to-peer":      {wiretest.Hex(t, "mpa/testdata/request-siw-p2p.hex"), Config{}, false},
		"Markers":           {withByte(siw, 16, 0x90), Config{}, false},
		"revision 1":        {plainFrame(false, 0), Config{}, false},
		"not enhanced":      {withByte(plainFrame(false, 0), 17, 2), Config{}, false},
		"siw, standards":    {siw, Config{ShortFPDUs: true}, false},
		"Markers, all told": {withByte(siw, 16, 0x90), Config{LongFPDUs: func(mpa.Frame) bool { return true }}, true},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			pl := newPipeListener()
			ln := deviceWith(tt.cfg).NewListener(pl)
			a, b := pairWithMSS(t, 500)
			pl.conns <- a
			p := &rawPeer{t: t, nc: b, crc: tt.request[16]&0x40 != 0 || tt.cfg.CRC == mpa.CRCOn}
			p.from.Markers = tt.request[16]&0x80 != 0
			p.writeBytes(tt.request)
			e := acceptPeer(t, ln, rdma.ConnConfig{})
			require.NoError(t, ln.Close())
			reply := p.readBytes(mpa.HeaderLen)
			p.readBytes(int(reply[19]))
			p.sendSegments(writeSeg(true, 0, 0, nil))
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(100_000)}}))
			start := p.from.At
			n := len(p.readSegment())
			if tt.long {
				assert.Equal(t, mpa.MaxULPDU, n)
			} else {
				assert.LessOrEqual(t, p.from.At-start, 500) // R5044-4.5-1, R5044-4.5-2
			}
			assert.Len(t, p.readSegment(), min(n, 100_000+18-n+18))
			b.Close()
			e.inbox.closeError(t)
		})
	}
}

// TestLongFPDUsByReply checks that an initiator identifies such a responder by
// its reply.
func TestLongFPDUsByReply(t *testing.T) {
	for flags, long := range map[byte]bool{0x10: true, 0x50: false, 0x90: false} {
		checkLeaks(t)
		p, _, result := rawResponder(t, Config{CRC: mpa.CRCOff, LongFPDUs: func(peer mpa.Frame) bool {
			assert.True(t, peer.Reply)
			return ParsesStream(peer)
		}}, rdma.ConnConfig{Handler: newInbox()})
		p.writeBytes(enhancedFrame(true, flags, 1, 1))
		got := <-result
		require.NoError(t, got.err)
		want := mpa.MULPDU(got.c.sock.tcp.emss(), flags&0x80 != 0)
		if long {
			want = mpa.MaxULPDU
		}
		assert.Equal(t, want, got.c.mulpdu)
		require.NoError(t, got.closeResult(t))
	}
}

// socketOption returns a TCP socket's option.
func socketOption(t testing.TB, c *Conn, level, name int) (v int) {
	t.Helper()
	var err error
	c.sock.tcp.withFD(func(fd int) { v, err = unix.GetsockoptInt(fd, level, name) })
	require.NoError(t, err)
	return v
}
