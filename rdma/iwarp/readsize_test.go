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

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// limitReads makes every read end after some bytes, as if no more had arrived.
func limitReads(c *Conn, size func() int) {
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

// siwPayload is how many RDMA Write bytes siw puts into an FPDU on Ethernet.
const siwPayload = 1436

// TestReadSizes checks that FPDUs as long as a TCP segment arrive whole however few bytes each read
// takes, in reused memory, for a connection that has its own reader and for those that workers
// serve, while this end sends (R5044-5.1-4, R5044-A.4-1).
func TestReadSizes(t *testing.T) {
	const size = 2*siwPayload + 500
	for _, o := range []rawOptions{{crc: true}, {}, {crc: true, markers: true}, {markers: true}} {
		for name, n := range map[string]int{"alone": 1, "workers": manyConns()} {
			sizes := []int{3, 17, 100, 700, siwPayload + 24, siwPayload + 25, 2000}
			if n > 1 {
				sizes = sizes[2:]
			}
			t.Run(fmt.Sprintf("%v, %s", o, name), func(t *testing.T) {
				checkLeaks(t)
				var each atomic.Int64
				each.Store(1 << 20)
				o := o
				o.before = func(c *Conn) { limitReads(c, func() int { return int(each.Load()) }) }
				all := newServedConns(t, n, o)
				for _, g := range all {
					go io.Copy(io.Discard, g.nc)
				}
				for _, k := range sizes {
					each.Store(int64(k))
					want := patternBytes(size + k)[k:]
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
						g.sendSegments(append(segments, sendSeg(true, g.msn, 0, want[:16]))...)
					}
					for i, g := range all {
						require.Equal(t, want[:16], g.inbox.nextMessage(t), "%d bytes a read", k)
						require.True(t, bytes.Equal(want, mem[i]), "%d bytes a read", k)
						regions[i].Deregister()
					}
				}
				for _, g := range all {
					require.NoError(t, g.nc.(*net.TCPConn).CloseWrite())
					assert.ErrorIs(t, g.inbox.closeError(t), io.EOF)
				}
			})
		}
	}
}

// TestFPDUsBehindReply checks that FPDUs that come with MPA's Reply, cut anywhere,
// are read as those that come later.
func TestFPDUsBehindReply(t *testing.T) {
	checkLeaks(t)
	fpdus := append(frameFPDU(true, sendSeg(true, 1, 0, []byte("first"))), frameFPDU(true, sendSeg(true, 2, 0, patternBytes(siwPayload)))...)
	reply := enhancedFrame(true, 0x50, 1, 1) // CRC, enhanced
	all := append(reply, fpdus...)
	for _, n := range []int{1, len(reply) - 1, len(reply), len(reply) + 1, len(reply) + 3, len(all) - 4, len(all)} {
		in := newInbox()
		p, _, result := rawResponder(t, Config{}, rdma.ConnConfig{Handler: in, Recvs: 2})
		p.writeBytes(all[:n])
		time.Sleep(time.Millisecond)
		p.writeBytes(all[n:])
		got := <-result
		require.NoError(t, got.err)
		require.True(t, got.c.Params().CRC)
		assert.Equal(t, "first", string(in.nextMessage(t)))
		assert.Equal(t, patternBytes(siwPayload), in.nextMessage(t))
		p.nc.Close()
		require.NoError(t, got.closeResult(t))
	}
}

// TestShortSendsCut checks that short Sends that leave together, and a long one's pieces, are whole
// for a peer that takes short FPDUs only, with and without CRCs and Markers.
func TestShortSendsCut(t *testing.T) {
	for _, mulpdu := range []int{mpa.MinMULPDU, maxInlineSend + 17, maxInlineSend + 18, mpa.MaxULPDU} {
		for _, o := range []rawOptions{{}, {crc: true}, {markers: true}, {crc: true, markers: true}} {
			t.Run(fmt.Sprintf("%d, %v", mulpdu, o), func(t *testing.T) {
				checkLeaks(t)
				o := o
				o.initiator, o.before = true, func(c *Conn) { c.mulpdu = mulpdu }
				e, p := connectRaw(t, o)
				maxPayload, msn := mulpdu-18, uint32(0)
				for _, n := range []int{0, 1, 2, 109, 110, 111, maxInlineSend - 1, maxInlineSend, maxInlineSend + 1, 5000} {
					body := patternBytes(n)
					send := rdma.WR{Op: rdma.OpSend, Data: [][]byte{body[:n/3], nil, body[n/3:]}}
					require.NoError(t, e.Post(send, rdma.WR{Op: rdma.OpSend}, rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{9}}}, send))
					for i, part := range [][]byte{body, nil, {9}, body} {
						if i == 2 {
							require.Equal(t, writeSeg(true, 0, 0, part), p.readSegment())
							continue
						}
						msn++
						for at := 0; at == 0 || at < len(part); at += maxPayload {
							end := min(at+maxPayload, len(part))
							require.Equal(t, sendSeg(end == len(part), msn, uint32(at), part[at:end]), p.readSegment(), "%d bytes", n)
						}
					}
				}
			})
		}
	}
}
