package iwarp

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// FPDUs are taken up to what the length field can say, more than is ever sent.
func TestLargestFPDU(t *testing.T) {
	for _, o := range streams {
		world(t)
		o.recvs, o.recvSize = 2, 1<<17
		e, p := againstRaw(t, o)
		mem := make([]byte, 1<<17)
		r, err := e.Register(mem, rdma.RemoteWrite)
		require.NoError(t, err)
		write, send := pattern(65535-14), pattern(65535-18)
		// The small ones before put the large ones anywhere in the staging.
		for i := range 5 {
			p.send(writeSeg(true, r.STag(), uint64(i), write), writeSeg(true, 0, 0, nil))
		}
		p.send(sendSeg(false, 1, 0, send), writeSeg(true, 0, 0, nil), sendSeg(true, 1, uint32(len(send)), send))
		assert.Equal(t, append(send, send...), e.in.next(t))
		assert.Equal(t, write, mem[4:][:len(write)])
		r.Deregister()
	}
}

// No ULPDU exceeds MULPDU, and none but the last is shorter; each FPDU fits a
// TCP segment (R5041-3-1-1, R5044-3-4, R5044-3-5, R5044-4.5-2, R5044-4.5-4, R5044-5.1-1).
func TestMULPDU(t *testing.T) {
	for _, mss := range []int{0, 500, 1460, 9000} { // 0: the loopback's own
		t.Run(fmt.Sprint(mss), func(t *testing.T) {
			world(t)
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
			a, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
			require.NoError(t, err)
			b, err := l.Accept()
			require.NoError(t, err)
			in := newInbox()
			c := newConn(newSocket(a), mpa.Params{}, mpa.Frame{}, rdma.ConnConfig{Handler: in}, false)
			c.start()
			p := &rawPeer{t: t, nc: b}

			emss := c.sock.raw.emss()
			if mss > 0 {
				require.LessOrEqual(t, emss, mss)
			}
			require.Equal(t, mpa.MULPDU(emss, false), c.mulpdu)
			want := pattern(200_000)
			require.NoError(t, c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{want}}))
			var got []byte
			for last := false; !last; {
				segment := p.segment()
				last = segment[0]&0x40 != 0
				assert.LessOrEqual(t, mpa.FPDULen(len(segment)), max(emss, mpa.FPDULen(mpa.MinMULPDU)))
				if !last {
					assert.Equal(t, c.mulpdu, len(segment))
				}
				got = append(got, segment[18:]...)
			}
			assert.Equal(t, want, got)
			assert.Equal(t, 1, option(t, a, unix.IPPROTO_TCP, unix.TCP_NODELAY)) // R5044-5.1-2
			closed := doneErr(c.Close)
			p.eof()
			require.NoError(t, <-closed)
		})
	}
}

// option returns an option of a TCP socket.
func option(t testing.TB, nc net.Conn, level, name int) (v int) {
	t.Helper()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { v, err = unix.GetsockoptInt(int(fd), level, name) }))
	require.NoError(t, err)
	return v
}
