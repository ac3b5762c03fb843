package roce

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

const (
	here  = "10.0.0.1"
	there = "10.0.0.2"
	pmtu  = 1024
)

// patternBytes returns n bytes, no two neighbours equal.
func patternBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// newRequester returns a UC queue pair in RTS, on a wire that keeps its packets.
func newRequester(t *testing.T, psn uint32) (*UC, *memWire) {
	w := newNetwork().newWire(here)
	w.log = true
	q, err := openDevice(t, w, Config{}).NewProtectionDomain().NewUC(UCConfig{})
	require.NoError(t, err)
	require.NoError(t, q.Connect(Peer{Address: Address{Addr: netip.MustParseAddr(there)}, QP: 0x123456, PMTU: pmtu}, psn))
	return q, w
}

// sentPackets decodes the packets sent since the last call, and checks the ICRCs.
func (w *memWire) sentPackets(t *testing.T) (all []packet.Packet) {
	for _, d := range w.sent {
		require.True(t, new(packet.Check).Valid(&d.Network, d.Bytes))
		var p packet.Packet
		var rest []byte
		var err error
		p.BTH, rest, err = packet.ParseBTH(d.Bytes[:len(d.Bytes)-packet.ICRCLen])
		require.NoError(t, err)
		require.NoError(t, p.ParseExtended(rest))
		all = append(all, p)
	}
	w.sent = nil
	return all
}

// TestFirstPSN checks that the first PSN is the wanted one, at either end of
// the 24-bit range (RIB-P4).
func TestFirstPSN(t *testing.T) {
	for _, psn := range []uint32{0, 1<<24 - 1} {
		q, w := newRequester(t, psn)
		require.NoError(t, q.Post(WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(pmtu + 1)}}))
		ps := w.sentPackets(t)
		require.Len(t, ps, 2)
		assert.Equal(t, psn, ps[0].PSN)
		assert.Equal(t, (psn+1)&0xffffff, ps[1].PSN)
	}
}

// TestRequester checks the packets for messages with all relevant lengths.
func TestRequester(t *testing.T) {
	const first = packet.Mask24 - 2 // RIB-P4
	q, w := newRequester(t, first)
	psn := uint32(first)
	for _, size := range []int{0, 1, 2, 3, 4, pmtu - 1, pmtu, pmtu + 1, 2 * pmtu, 3*pmtu - 2, 20*pmtu + 1} { // RIB-C9-176
		for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite} {
			for _, imm := range []bool{false, true} {
				data := patternBytes(size)
				var done completionLog
				wr := WR{
					Op: op, Data: [][]byte{data[:size/3], nil, data[size/3:]}, Solicited: true, Done: &done, ID: 7,
					Remote: rdma.Remote{STag: 0x01020304, TO: 5}, Immediate: 0xcafe, WithImmediate: imm,
				}
				require.NoError(t, q.Post(wr))
				assert.Equal(t, []Completion{{QP: q.Number(), ID: 7, Op: op}}, done.takeAll(), "no answer is awaited") // RIB-C9-180
				ps := w.sentPackets(t)
				require.Len(t, ps, max(1, (size+pmtu-1)/pmtu))
				var got []byte
				for i, p := range ps {
					starts, ends := i == 0, i == len(ps)-1
					assert.Equal(t, psn, p.PSN) // RIB-C9-172, RIB-C9-173, RIB-C9-175
					psn = (psn + 1) % (1 << 24)
					assert.Equal(t, packet.UCOpcode(op == rdma.OpWrite, starts, ends, imm), p.Opcode)
					assert.Equal(t, ends, p.Solicited)
					assert.EqualValues(t, 0x123456, p.DestQP)
					assert.EqualValues(t, 0xffff, p.PKey)
					assert.False(t, p.AckReq)
					switch n := len(p.Payload); {
					case !ends:
						assert.Equal(t, pmtu, n) // RIB-C9-177
					case starts:
						assert.LessOrEqual(t, n, pmtu) // RIB-C9-178
					default: // RIB-C9-179, RIB-o9-124
						assert.LessOrEqual(t, n, pmtu)
						assert.Positive(t, n)
					}
					assert.Equal(t, packet.PadFor(len(p.Payload)), p.Pad)
					if op == rdma.OpWrite && starts {
						assert.Equal(t, packet.RETH{VA: 5, RKey: 0x01020304, Length: uint32(size)}, p.RETH)
					}
					if imm && ends {
						assert.EqualValues(t, 0xcafe, p.Immediate)
					}
					got = append(got, p.Payload...)
				}
				assert.True(t, bytes.Equal(data, got))
			}
		}
	}
	assert.Less(t, psn, uint32(first), "the number has wrapped")
}

// TestRequesterStates checks that a state that does not send neither sends nor
// uses a PSN.
func TestRequesterStates(t *testing.T) {
	w := newNetwork().newWire(here)
	w.log = true
	var recv completionLog
	q, err := openDevice(t, w, Config{}).NewProtectionDomain().NewUC(UCConfig{Recv: &recv, Recvs: 2})
	require.NoError(t, err)
	send := WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(8)}}
	peer := Peer{Address: Address{Addr: netip.MustParseAddr(there)}, QP: 2, PMTU: pmtu}

	require.ErrorIs(t, q.Post(send), errState)
	require.ErrorIs(t, q.PostRecv(Recv{}), errState)
	require.ErrorIs(t, q.ReadyToReceive(peer), errState)
	require.ErrorIs(t, q.ReadyToSend(1), errState)
	require.NoError(t, q.Init())
	require.ErrorIs(t, q.Init(), errState)
	require.ErrorIs(t, q.Post(send), errState) // RIB-C9-174
	require.NoError(t, q.PostRecv(Recv{ID: 1}))
	require.Error(t, q.PostRecv(Recv{}, Recv{}), "no space for both")
	require.NoError(t, q.PostRecv(Recv{ID: 2}))
	for _, bad := range []Peer{
		{Address: peer.Address, QP: 2, PMTU: 1000},
		{Address: peer.Address, QP: 2, PMTU: 8192},
		{Address: peer.Address, QP: 1 << 24, PMTU: pmtu},
		{Address: peer.Address, QP: 2, PMTU: pmtu, PSN: 1 << 24},
		{Address: Address{Addr: netip.MustParseAddr("fe80::1")}, QP: 2, PMTU: pmtu},
		{Address: Address{Addr: netip.MustParseAddr("224.0.0.5")}, QP: 2, PMTU: pmtu},
		{QP: 2, PMTU: pmtu},
	} {
		require.Error(t, q.ReadyToReceive(bad), "%+v", bad)
	}
	require.NoError(t, q.ReadyToReceive(peer))
	require.ErrorIs(t, q.Post(send), errState) // RIB-C9-174
	require.Error(t, q.ReadyToSend(1<<24))
	require.NoError(t, q.ReadyToSend(77))
	assert.Equal(t, RTS, q.State())
	assert.Empty(t, w.sent)
	require.NoError(t, q.Post(send))
	assert.EqualValues(t, 77, w.sentPackets(t)[0].PSN) // RIB-C9-173

	require.Error(t, q.Post(WR{Op: rdma.OpRead}))
	require.NoError(t, q.Err())
	cause := errors.New("enough")
	q.Fail(cause)
	<-q.Done()
	assert.Equal(t, cause, q.Err())
	flushed := Completion{QP: q.Number(), Received: true, Err: rdma.ErrFlushed}
	one, two := flushed, flushed
	one.ID, two.ID = 1, 2
	assert.Equal(t, []Completion{one, two}, recv.takeAll())
	var done completionLog
	send.Done = &done
	require.NoError(t, q.Post(send))
	assert.Equal(t, rdma.ErrFlushed, done.takeAll()[0].Err)
	require.NoError(t, q.PostRecv(Recv{ID: 1}))
	assert.Equal(t, []Completion{one}, recv.takeAll())
	assert.Empty(t, w.sent)

	q.Reset()
	require.NoError(t, q.Err())
	require.NoError(t, q.Connect(peer, 5))
	require.NoError(t, q.Post(send))
	assert.EqualValues(t, 5, w.sentPackets(t)[0].PSN)
	q.Close()
	assert.Equal(t, "ERROR", q.State().String())
}

// TestRequesterFaults checks that a local error ends the message and the queue
// pair. Earlier work is done, and later work is flushed.
func TestRequesterFaults(t *testing.T) {
	gone := truncatedMapping(t)
	for name, spoil := range map[string]func(*memWire, *WR) error{
		"memory": func(_ *memWire, wr *WR) error { wr.Data = [][]byte{gone}; return ErrFault },
	} {
		t.Run(name, func(t *testing.T) {
			q, w := newRequester(t, 0)
			var done completionLog
			wrs := make([]WR, 3)
			for i := range wrs {
				wrs[i] = WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(10)}, Done: &done, ID: uint64(i)}
			}
			want := spoil(w, &wrs[1])
			require.NoError(t, q.Post(wrs...))
			all := done.takeAll()
			require.Len(t, all, 3)
			require.NoError(t, all[0].Err)
			require.ErrorIs(t, all[1].Err, want) // RIB-C9-180
			require.ErrorIs(t, all[2].Err, rdma.ErrFlushed)
			assert.Equal(t, Error, q.State())
			require.ErrorIs(t, q.Err(), want)
		})
	}

	t.Run("wire", func(t *testing.T) {
		q, w := newRequester(t, 0)
		w.refuse[netip.MustParseAddr(there)] = unix.ENETUNREACH
		var done completionLog
		require.NoError(t, q.Post(WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(10)}, Done: &done}))
		require.ErrorIs(t, done.takeAll()[0].Err, unix.ENETUNREACH) // RIB-C9-180
		require.ErrorIs(t, q.Err(), unix.ENETUNREACH)
	})
}

// truncatedMapping returns a file's mapping after the file was truncated.
func truncatedMapping(t *testing.T) []byte {
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(1<<16))
	b, err := unix.Mmap(int(f.Fd()), 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	require.NoError(t, f.Truncate(0))
	return b
}
