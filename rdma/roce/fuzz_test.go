package roce

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// fuzzMargin is the guard area around writable memory, in bytes.
const fuzzMargin = 64

// A script is turned into packets: some bytes each say how the packet differs
// from a right one.
type script []byte

func (s *script) nextInt() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// FuzzUC sends a responder arbitrary packets from the right peer with right
// ICRCs. The responder must place nothing outside its memory, and complete no
// more receives than were posted.
func FuzzUC(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 2, 0, 0, 0, 0})
	f.Add([]byte{6, 0, 0, 0, 0, 8, 0, 0, 0, 0, 11, 0, 0, 5, 3})
	f.Add(bytes.Repeat([]byte{10, 1, 255, 200, 9}, 20))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newNetwork().newWire(here)
		d := openDevice(t, w, Config{})
		pd := d.NewProtectionDomain()
		var got completionLog
		q, err := pd.NewUC(UCConfig{Recv: &got, Access: rdma.RemoteWrite, Recvs: 4})
		require.NoError(t, err)
		mem := make([]byte, 3*256+2*fuzzMargin)
		region, err := pd.Register(mem[fuzzMargin:len(mem)-fuzzMargin], rdma.RemoteWrite)
		require.NoError(t, err)
		require.NoError(t, q.Connect(Peer{Address: Address{Addr: netip.MustParseAddr(there)}, QP: 9, PMTU: 256}, 0))
		recv := make([]byte, 600+fuzzMargin)
		posted := 4
		for range posted {
			require.NoError(t, q.PostRecv(Recv{Data: recv[:600:600]}))
		}

		payload := bytes.Repeat([]byte{0xff}, 300)
		psn := uint32(0)
		for s := script(b); len(s) > 0; {
			op := packet.UCSendFirst + packet.Opcode(s.nextInt()%16)
			psn = (psn + uint32(int8(s.nextInt()))) & packet.Mask24
			n := min(s.nextInt()+s.nextInt(), 300)
			odd := s.nextInt()
			p := packet.Packet{
				BTH:     packet.BTH{Opcode: op, PKey: defaultPKey, DestQP: q.number, PSN: psn, Pad: packet.PadFor(n)},
				RETH:    packet.RETH{RKey: uint32(region.key) ^ uint32(odd&1), VA: uint64(int8(odd)) &^ 1, Length: uint32(n * (1 + odd>>6))},
				Payload: payload[:n],
			}
			w.injectPacket(netip.MustParseAddr(there), p)
			psn = packet.NextPSN(psn)
			if c := got.takeAll(); len(c) > 0 {
				posted -= len(c)
				require.GreaterOrEqual(t, posted, 0)
				require.NoError(t, c[0].Err)
				require.LessOrEqual(t, c[0].Bytes, 3*256)
			}
		}
		require.Equal(t, RTS, q.State(), "no peer ends a queue pair")
		zero := make([]byte, fuzzMargin)
		require.Equal(t, zero, mem[:fuzzMargin])
		require.Equal(t, zero, mem[len(mem)-fuzzMargin:])
		require.Equal(t, zero, recv[600:])
	})
}

// FuzzUD sends a queue pair arbitrary bytes after a UD BTH with the right ICRC.
func FuzzUD(f *testing.F) {
	good := packet.Packet{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: defaultPKey}, DETH: packet.DETH{QKey: qkey}, Payload: patternBytes(40)}
	f.Add(good.AppendTo(nil))
	good.Opcode, good.Payload, good.Pad = packet.UDSendOnlyImmediate, patternBytes(5), 3
	f.Add(good.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newNetwork().newWire(here)
		d := openDevice(t, w, Config{})
		var got completionLog
		q, err := d.NewProtectionDomain().NewUD(UDConfig{Recv: &got})
		require.NoError(t, err)
		require.NoError(t, q.Start(qkey))
		recv := make([]byte, GRHLen+64+fuzzMargin)
		require.NoError(t, q.PostRecv(Recv{Data: recv[:GRHLen+64]}))
		if len(b) >= packet.BTHLen {
			b[5], b[6], b[7] = byte(q.number>>16), byte(q.number>>8), byte(q.number)
			net := Address{Addr: w.addr}.networkHeader(&memWire{addr: netip.MustParseAddr(there)})
			b = new(packet.Check).AppendICRC(&net, b)
		}
		w.injectDatagram(Datagram{Bytes: b, Network: Address{Addr: w.addr}.networkHeader(&memWire{addr: netip.MustParseAddr(there)})})
		require.Equal(t, make([]byte, fuzzMargin), recv[GRHLen+64:])
		c := got.takeAll()
		dropped := uint64(0)
		for _, n := range d.Stats().Dropped {
			dropped += n
		}
		require.EqualValues(t, 1, len(c)+int(dropped), "accepted or dropped, once")
	})
}

// FuzzDatagram sends a device arbitrary bytes from any source.
func FuzzDatagram(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(patternBytes(64), true)
	d := Open(newNetwork().newWire(here), Config{})
	f.Cleanup(func() { _ = d.Close() })
	w := d.wire.(*memWire)
	f.Fuzz(func(t *testing.T, b []byte, unseen bool) {
		w.injectDatagram(Datagram{Bytes: b, Unseen: unseen, Network: packet.Network{Dst: gidOf(w.addr), Src: packet.GID{15: byte(rand.N(256))}}})
	})
}
