package iwarp

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// shortReads makes every read end after some bytes, as if no more had arrived.
func shortReads(c *Conn, size func() int) {
	d := &c.sock.tcp.rd
	system := d.call
	d.call = func(flags int) (int, unix.Errno) {
		left := size()
		for i := range d.iov {
			v := &d.iov[i]
			if int(v.Len) >= left {
				v.SetLen(left)
				d.iov = d.iov[:i+1]
				break
			}
			left -= int(v.Len)
		}
		d.size = 0
		for _, v := range d.iov {
			d.size += int(v.Len)
		}
		return system(flags)
	}
}

// siwPayload is how many bytes of an RDMA Write siw puts into an FPDU on Ethernet.
const siwPayload = 1436

// TestReadSizes checks that FPDUs of the length of a TCP segment arrive whole
// however few bytes each read takes, in reused memory, for a connection that has
// its own reader and for those that workers serve, while this end sends (R5044-5.1-4,
// R5044-A.4-1).
func TestReadSizes(t *testing.T) {
	const size = 2*siwPayload + 500
	for _, o := range []raw{{crc: true}, {}, {crc: true, markers: true}, {markers: true}} {
		for name, n := range map[string]int{"alone": 1, "workers": many()} {
			sizes := []int{3, 17, 100, 700, siwPayload + 24, siwPayload + 25, 2000}
			if n > 1 {
				sizes = sizes[2:]
			}
			t.Run(fmt.Sprintf("%v, %s", o, name), func(t *testing.T) {
				world(t)
				var each atomic.Int64
				each.Store(1 << 20)
				o := o
				o.before = func(c *Conn) { shortReads(c, func() int { return int(each.Load()) }) }
				all := guests(t, n, o)
				for _, g := range all {
					go io.Copy(io.Discard, g.nc)
				}
				for _, k := range sizes {
					each.Store(int64(k))
					want := pattern(size + k)[k:]
					mem, regions := make([][]byte, n), make([]rdma.Region, n)
					for i, g := range all {
						mem[i] = make([]byte, size)
						var err error
						regions[i], err = g.Register(mem[i], rdma.RemoteWrite)
						require.NoError(t, err)
						var segments [][]byte
						for at := 0; at < size; at += siwPayload {
							end := min(at+siwPayload, size)
							segments = append(segments, writeSeg(end == size, regions[i].STag(), uint64(at), want[at:end]))
						}
						g.msn++
						require.NoError(t, g.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{want[:k]}}))
						g.send(append(segments, sendSeg(true, g.msn, 0, want[:16]))...)
					}
					for i, g := range all {
						require.Equal(t, want[:16], g.in.next(t), "%d bytes a read", k)
						require.True(t, bytes.Equal(want, mem[i]), "%d bytes a read", k)
						regions[i].Deregister()
					}
				}
				for _, g := range all {
					require.NoError(t, g.nc.(*net.TCPConn).CloseWrite())
					assert.ErrorIs(t, g.in.end(t), io.EOF)
				}
			})
		}
	}
}

// TestFPDUsBehindReply checks that FPDUs that come with MPA's Reply, cut anywhere,
// are read as those that come later.
func TestFPDUsBehindReply(t *testing.T) {
	world(t)
	fpdus := append(fpdu(true, sendSeg(true, 1, 0, []byte("first"))), fpdu(true, sendSeg(true, 2, 0, pattern(siwPayload)))...)
	reply := enhanced(true, 0x50, 1, 1) // CRC, enhanced
	all := append(reply, fpdus...)
	for _, n := range []int{1, len(reply) - 1, len(reply), len(reply) + 1, len(reply) + 3, len(all) - 4, len(all)} {
		in := newInbox()
		p, _, result := rawResponder(t, Config{}, rdma.ConnConfig{Handler: in, Recvs: 2})
		p.write(all[:n])
		time.Sleep(time.Millisecond)
		p.write(all[n:])
		got := <-result
		require.NoError(t, got.err)
		require.True(t, got.c.Params().CRC)
		assert.Equal(t, "first", string(in.next(t)))
		assert.Equal(t, pattern(siwPayload), in.next(t))
		p.nc.Close()
		require.NoError(t, got.end(t))
	}
}

// TestShortSendsCut checks that short Sends that leave together, and pieces of a long one,
// are whole for a peer that takes short FPDUs only, with and without CRCs and Markers.
func TestShortSendsCut(t *testing.T) {
	for _, mulpdu := range []int{mpa.MinMULPDU, maxInside + 17, maxInside + 18, mpa.MaxULPDU} {
		for _, o := range []raw{{}, {crc: true}, {markers: true}, {crc: true, markers: true}} {
			t.Run(fmt.Sprintf("%d, %v", mulpdu, o), func(t *testing.T) {
				world(t)
				o := o
				o.initiator, o.before = true, func(c *Conn) { c.mulpdu = mulpdu }
				e, p := againstRaw(t, o)
				room, msn := mulpdu-18, uint32(0)
				for _, n := range []int{0, 1, 2, 109, 110, 111, maxInside - 1, maxInside, maxInside + 1, 5000} {
					body := pattern(n)
					send := rdma.WR{Op: rdma.OpSend, Data: [][]byte{body[:n/3], nil, body[n/3:]}}
					require.NoError(t, e.Post(send, rdma.WR{Op: rdma.OpSend}, rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{9}}}, send))
					for i, part := range [][]byte{body, nil, {9}, body} {
						if i == 2 {
							require.Equal(t, writeSeg(true, 0, 0, part), p.segment())
							continue
						}
						msn++
						for at := 0; at == 0 || at < len(part); at += room {
							end := min(at+room, len(part))
							require.Equal(t, sendSeg(end == len(part), msn, uint32(at), part[at:end]), p.segment(), "%d bytes", n)
						}
					}
				}
			})
		}
	}
}
