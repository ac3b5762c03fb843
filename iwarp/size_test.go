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
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestLargestFPDU checks that FPDUs are accepted up to the maximum of the
// length field, more than this package ever sends (R5044-3-7).
func TestLargestFPDU(t *testing.T) {
	for _, o := range streams {
		world(t)
		o.recvs, o.recvSize = 2, 1<<17
		e, p := againstRaw(t, o)
		mem := make([]byte, 1<<17)
		r, err := e.Register(mem, rdma.RemoteWrite)
		require.NoError(t, err)
		write, send := pattern(65535-14), pattern(65535-18)
		// The small FPDUs vary the offset of the large ones in the staging
		// buffer.
		for i := range 5 {
			p.send(writeSeg(true, r.STag(), uint64(i), write), writeSeg(true, 0, 0, nil))
		}
		p.send(sendSeg(false, 1, 0, send), writeSeg(true, 0, 0, nil), sendSeg(true, 1, uint32(len(send)), send))
		assert.Equal(t, append(send, send...), e.in.next(t))
		assert.Equal(t, write, mem[4:][:len(write)])
		r.Deregister()
	}
}

// narrowPair is ncPair with a maximum segment size. An mss of 0 keeps the
// loopback's own.
func narrowPair(t testing.TB, mss int) (a, b net.Conn) {
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
				world(t)
				a, b := narrowPair(t, mss)
				c := lab.newConn(newSocket(a), mpa.Params{SendMarkers: markers}, mpa.Frame{}, rdma.ConnConfig{Handler: newInbox()}, false)
				c.start()
				p := &rawPeer{t: t, nc: b}
				p.from.Markers = markers

				emss := c.sock.tcp.emss()
				if mss > 0 {
					require.LessOrEqual(t, emss, mss)
				}
				require.Equal(t, mpa.MULPDU(emss, markers), c.mulpdu)
				want := pattern(200_000)
				// The first message is short; it must not affect the next
				// (R5044-4.5-6).
				require.NoError(t, c.Post(rdma.WR{Op: rdma.OpWrite}, rdma.WR{Op: rdma.OpSend, Data: [][]byte{want}}))
				p.segment()
				var got []byte
				for last := false; !last; {
					start := p.from.At
					segment := p.segment()
					last = segment[0]&0x40 != 0
					assert.LessOrEqual(t, p.from.At-start, emss)
					if !last {
						assert.Equal(t, c.mulpdu, len(segment))
					}
					got = append(got, segment[18:]...)
				}
				assert.Equal(t, want, got)
				assert.Equal(t, 1, option(t, c, unix.IPPROTO_TCP, unix.TCP_NODELAY)) // R5044-5.1-2
				closed := doneErr(c.Close)
				p.eof()
				require.NoError(t, <-closed)
			})
		}
	}
}

// TestLongFPDUs checks that peers known to parse FPDUs from a byte stream get
// FPDUs of the maximum length (R5044-3-5), and that all other peers get FPDUs
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
		"Markers":           {with(siw, 16, 0x90), Config{}, false},
		"revision 1":        {plain(false, 0), Config{}, false},
		"not enhanced":      {with(plain(false, 0), 17, 2), Config{}, false},
		"siw, standards":    {siw, Config{ShortFPDUs: true}, false},
		"Markers, all told": {with(siw, 16, 0x90), Config{LongFPDUs: func(mpa.Frame) bool { return true }}, true},
	} {
		t.Run(name, func(t *testing.T) {
			world(t)
			pl := newPipeListener()
			ln := labWith(tt.cfg).NewListener(pl)
			a, b := narrowPair(t, 500)
			pl.conns <- a
			p := &rawPeer{t: t, nc: b, crc: tt.request[16]&0x40 != 0 || tt.cfg.CRC == mpa.CRCOn}
			p.from.Markers = tt.request[16]&0x80 != 0
			p.write(tt.request)
			e := accept(t, ln, rdma.ConnConfig{})
			require.NoError(t, ln.Close())
			reply := p.read(mpa.HeaderLen)
			p.read(int(reply[19]))
			p.send(writeSeg(true, 0, 0, nil))
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{pattern(100_000)}}))
			start := p.from.At
			n := len(p.segment())
			if tt.long {
				assert.Equal(t, mpa.MaxULPDU, n)
			} else {
				assert.LessOrEqual(t, p.from.At-start, 500) // R5044-4.5-1, R5044-4.5-2
			}
			assert.Len(t, p.segment(), min(n, 100_000+18-n+18))
			b.Close()
			e.in.end(t)
		})
	}
}

// TestLongFPDUsByReply checks that an initiator identifies such a responder by
// its reply.
func TestLongFPDUsByReply(t *testing.T) {
	for flags, long := range map[byte]bool{0x10: true, 0x50: false, 0x90: false} {
		world(t)
		p, _, result := rawResponder(t, Config{CRC: mpa.CRCOff, LongFPDUs: func(peer mpa.Frame) bool {
			assert.True(t, peer.Reply)
			return ParsesStream(peer)
		}}, rdma.ConnConfig{Handler: newInbox()})
		p.write(enhanced(true, flags, 1, 1))
		got := <-result
		require.NoError(t, got.err)
		want := mpa.MULPDU(got.c.sock.tcp.emss(), flags&0x80 != 0)
		if long {
			want = mpa.MaxULPDU
		}
		assert.Equal(t, want, got.c.mulpdu)
		require.NoError(t, got.end(t))
	}
}

// option returns an option of a TCP socket.
func option(t testing.TB, c *Conn, level, name int) (v int) {
	t.Helper()
	var err error
	c.sock.tcp.control(func(fd int) { v, err = unix.GetsockoptInt(fd, level, name) })
	require.NoError(t, err)
	return v
}
