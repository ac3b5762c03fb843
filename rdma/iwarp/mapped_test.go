package iwarp

import (
	"encoding/binary"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// mapFile returns a mapping of a file with a pattern, and a function that
// truncates the file.
func mapFile(t testing.TB, size int) (mem []byte, cut func(size int64)) {
	t.Helper()
	fd, err := unix.MemfdCreate(t.Name(), 0)
	require.NoError(t, err)
	_, err = unix.Pwrite(fd, patternBytes(size), 0)
	require.NoError(t, err)
	mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, unix.Munmap(mem))
		assert.NoError(t, unix.Close(fd))
	})
	return mem, func(size int64) { require.NoError(t, unix.Ftruncate(fd, size)) }
}

// TestTruncated checks that a file truncated while it is sent is padded with
// zeros, and that the sender can report this in the next message. The FPDU is
// always complete, and this process does not fault.
func TestTruncated(t *testing.T) {
	const front = 1000 // bytes from other memory, before the file's
	for name, o := range transports {
		for _, tt := range []struct{ size, left int }{
			{10_000, 0},
			{300_000, 65_000},
			{300_000, 299_008}, // all but the last page
			{4 << 20, 100_000}, // longer than a batch
			{4 << 20, 3 << 20},
			{20_000, 20_000},
		} {
			t.Run(name, func(t *testing.T) {
				checkLeaks(t)
				a, b := connectPair(t, o)
				file, cut := mapFile(t, tt.size)
				cut(int64(tt.left))
				sink, done := patternBytes(front+tt.size), make(completionWaiter, 2)
				r, err := b.Register(sink, rdma.RemoteWrite)
				require.NoError(t, err)
				reply, calls := []byte("whole:12345678"), 0
				all := append(patternBytes(front), patternBytes(tt.size)...)
				require.NoError(t, a.Post(rdma.WR{
					Op: rdma.OpWrite, Data: [][]byte{patternBytes(front), file}, Remote: rdma.Remote{STag: r.STag()}, Done: done,
					Reread: func(p []byte, at int) (int, int) {
						calls++
						n := max(0, min(len(p), front+tt.left-at))
						copy(p[:n], all[at:])
						if n < len(p) {
							binary.BigEndian.PutUint64(reply[copy(reply, "short:"):], uint64(at+n))
						}
						return n, 0
					},
				}, rdma.WR{Op: rdma.OpSend, Data: [][]byte{reply}, Done: done}))
				got := b.inbox.nextMessage(t)
				for range 2 {
					require.NoError(t, done.wait(t).Err)
				}
				r.Deregister()
				if tt.left == tt.size {
					assert.Equal(t, "whole:12345678", string(got))
					assert.Zero(t, calls)
				} else {
					assert.Equal(t, "short:", string(got[:6]))
					assert.EqualValues(t, front+tt.left, binary.BigEndian.Uint64(got[6:]))
					assert.Positive(t, calls)
				}
				assert.Equal(t, patternBytes(front), sink[:front])
				assert.Equal(t, patternBytes(tt.size)[:tt.left], sink[front:][:tt.left])
				assert.Equal(t, make([]byte, tt.size-tt.left), sink[front+tt.left:])
				sendFirst(t, b, a) // the connection continues
			})
		}
	}
}

// TestTruncatedSend is TestTruncated for a Send, which is all zeros then.
func TestTruncatedSend(t *testing.T) {
	for name, o := range transports {
		for _, size := range []int{1, maxInlineSend, maxInlineSend + 1} {
			t.Run(name, func(t *testing.T) {
				checkLeaks(t)
				a, b := connectPair(t, o)
				file, cut := mapFile(t, size)
				cut(0)
				var calls atomic.Int32
				require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{file}, Reread: func([]byte, int) (int, int) {
					calls.Add(1)
					return 0, 0
				}}))
				assert.Equal(t, make([]byte, size), b.inbox.nextMessage(t))
				assert.EqualValues(t, 1, calls.Load())
				sendFirst(t, b, a) // the connection continues
			})
		}
	}
}

// TestReread checks that Reread supplies data that the mapping cannot, as long
// as it has any. If it has no more, the following Send may report that in fewer
// bytes. The queue is not locked during that time.
func TestReread(t *testing.T) {
	const size = 1 << 20
	for name, o := range transports {
		for _, tt := range []struct {
			there   int // bytes that are in the mapping
			more    int // bytes that the mapping and Reread have together
			shorter int // by how much the Send gets shorter if more is less than size
		}{
			{100 << 10, size, 0},
			{0, size, 0},
			{0, 0, 12},
			{100 << 10, 200_001, 12},
			{size - 4096, size - 4096, 4},
			{size - 4096, size - 10, 16},
		} {
			t.Run(name, func(t *testing.T) {
				checkLeaks(t)
				a, b := connectPair(t, o)
				file, cut := mapFile(t, size)
				cut(int64(tt.there))
				sink, done := make([]byte, size), make(completionWaiter, 3)
				r, err := b.Register(sink, rdma.RemoteWrite)
				require.NoError(t, err)
				reply, want := []byte("head and "), "head and tail of the reply"
				calls := 0
				write := rdma.WR{
					Op: rdma.OpWrite, Data: [][]byte{file}, Remote: rdma.Remote{STag: r.STag()}, Done: done,
					Reread: func(p []byte, at int) (int, int) {
						a.tx.mu.Lock() // the lock is free while the file is read
						calls++
						a.tx.mu.Unlock()
						n := min(len(p), tt.more-at)
						copy(p[:n], patternBytes(size)[at:])
						if n < len(p) {
							copy(reply, "cut,")
							want = "cut," + want[4:len(want)-tt.shorter]
							return n, tt.shorter
						}
						return n, 0
					},
				}
				send := rdma.WR{Op: rdma.OpSend, Data: [][]byte{reply, []byte("tail of"), []byte(" the reply")}, Done: done}
				require.NoError(t, a.Post(write, send, rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("another")}, Done: done}))
				got := string(b.inbox.nextMessage(t))
				assert.Equal(t, "another", string(b.inbox.nextMessage(t)))
				for range 3 {
					require.NoError(t, done.wait(t).Err)
				}
				r.Deregister()
				assert.Equal(t, want, got)
				assert.Positive(t, calls)
				assert.Equal(t, patternBytes(size)[:tt.more], sink[:tt.more])
				assert.Equal(t, make([]byte, size-tt.more), sink[tt.more:])
				sendFirst(t, b, a)
			})
		}
	}
}

// TestRereadTooLate checks that a Send which is partly sent cannot become
// shorter: the connection ends, and the peer must repeat its request.
func TestRereadTooLate(t *testing.T) {
	checkLeaks(t)
	a, _ := connectPair(t, pairOptions{initiator: Config{CRC: mpa.CRCOff}, responder: Config{CRC: mpa.CRCOff}})
	file, cut := mapFile(t, 10_000)
	cut(0)
	done := make(completionWaiter, 2)
	require.NoError(t, a.Post(rdma.WR{
		Op: rdma.OpSend, Data: [][]byte{file}, Done: done,
		Reread: func([]byte, int) (int, int) { return 0, 4 },
	}))
	assert.Error(t, done.wait(t).Err)
}

// TestTerminateWhileReread checks that a Terminate which falls due during
// Reread is sent after the whole FPDU whose data Reread supplies.
func TestTerminateWhileReread(t *testing.T) {
	for _, o := range []rawOptions{{crc: true}, {crc: true, markers: true}, {}} {
		t.Run(o.String(), func(t *testing.T) {
			checkLeaks(t)
			o.initiator, o.recvs = true, 1
			e, p := connectRaw(t, o)
			file, cut := mapFile(t, 300_000)
			cut(0)
			calls := 0
			require.NoError(t, e.Post(rdma.WR{
				Op: rdma.OpWrite, Data: [][]byte{file[:10], file[10:20], file},
				Reread: func([]byte, int) (int, int) {
					calls++
					p.sendSegments(sendSeg(true, 9, 0, nil)) // an invalid MSN
					require.Eventually(t, func() bool {
						e.tx.mu.Lock()
						defer e.tx.mu.Unlock()
						return e.tx.terminate != nil
					}, testTimeout, time.Millisecond)
					return 0, 0
				},
			}))
			for segment := p.readSegment(); ; segment = p.readSegment() {
				if !ddp.IsTagged(segment[0]) {
					parseTerminate(t, segment)
					break
				}
				assert.Equal(t, make([]byte, len(segment)-ddp.TaggedLen), segment[ddp.TaggedLen:])
			}
			p.expectEOF()
			requireFault(t, e.inbox.closeError(t), false, rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: 3})
			assert.Equal(t, 1, calls)
		})
	}
}

// TestSendsMapped checks that mapped data needs no buffer if only the kernel,
// or the CRC computation, reads it.
func TestSendsMapped(t *testing.T) {
	for name, tt := range map[string]struct {
		o    pairOptions
		want bool
	}{
		"plain":   {transports["tcp"], true},
		"CRC":     {transports["tcp, crc"], true},
		"Markers": {transports["markers"], false},
		"no TCP":  {transports["pipe"], false},
		"record":  {pairOptions{initiator: Config{CRC: mpa.CRCOff, Record: 1}, responder: Config{CRC: mpa.CRCOff, Record: 1}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, _ := connectPair(t, tt.o)
			assert.Equal(t, tt.want, a.SendsMapped())
			file, cut := mapFile(t, 100_000)
			cut(0)
			n := -1
			done := make(completionWaiter, 1)
			require.NoError(t, a.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{nil}, Done: done, Reread: func([]byte, int) (int, int) { panic("of nothing") }}))
			require.NoError(t, done.wait(t).Err)
			require.NoError(t, a.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{file[:0], file[5:5]}, Done: done, Reread: func(_ []byte, at int) (int, int) { n = at; return 0, 0 }}))
			require.NoError(t, done.wait(t).Err)
			assert.Equal(t, -1, n)
			if a.sock.record != nil {
				require.NoError(t, a.WriteRecord(io.Discard))
			}
		})
	}
}

// TestMachineWatched checks that at both ends the kernel detects a vanished
// peer machine (internal/keepalive), both while bytes are unacknowledged and
// while the connection is idle.
func TestMachineWatched(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{})
	for _, e := range []endpoint{a, b} {
		e.sock.tcp.withFD(func(fd int) {
			for _, o := range []struct{ level, name, want int }{
				{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(time.Minute / time.Millisecond)},
				{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
				{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
				{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
			} {
				got, err := unix.GetsockoptInt(fd, o.level, o.name)
				assert.NoError(t, err)
				assert.Equal(t, o.want, got, o.name)
			}
		})
	}
}
