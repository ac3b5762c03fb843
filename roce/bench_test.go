package roce

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A bench is a UC queue pair in RTS that tests send packets to.
type bench struct {
	t    *testing.T
	dev  *Device
	wire *memWire
	pd   *ProtectionDomain
	q    *UC
	got  log
	mem  []byte // of the region
	reg  *Region
	psn  uint32 // of the next packet in order
}

const benchPSN = 100

func newBench(t *testing.T) *bench {
	b := &bench{t: t, wire: newNetwork().wire(here), psn: benchPSN, mem: make([]byte, 8*pmtu)}
	b.wire.log = true
	b.dev = device(t, b.wire, Config{})
	b.pd = b.dev.NewProtectionDomain()
	var err error
	b.reg, err = b.pd.Register(b.mem, rdma.RemoteWrite)
	require.NoError(t, err)
	b.q, err = b.pd.NewUC(UCConfig{Recv: &b.got, Access: rdma.RemoteWrite})
	require.NoError(t, err)
	require.NoError(t, b.q.Connect(b.peer(benchPSN), 0))
	return b
}

func (b *bench) peer(psn uint32) Peer {
	return Peer{Address: Address{Addr: netip.MustParseAddr(there)}, QP: 9, PMTU: pmtu, PSN: psn}
}

// recv posts a receive of n bytes.
func (b *bench) recv(n int) []byte {
	b.t.Helper()
	mem := make([]byte, n)
	require.NoError(b.t, b.q.PostRecv(Recv{Data: mem, ID: uint64(n)}))
	return mem
}

// packet returns the next packet in order, with a payload of the length that
// the opcode needs.
func (b *bench) packet(op packet.Opcode) packet.Packet {
	p := packet.Packet{
		BTH:       packet.BTH{Opcode: op, PKey: defaultPKey, DestQP: b.q.number, PSN: b.psn},
		RETH:      packet.RETH{RKey: uint32(b.reg.key), Length: 2 * pmtu},
		Immediate: 0xabcd, Payload: numbered(pmtu),
	}
	if op.Starts() && op.Ends() {
		p.RETH.Length = pmtu
	}
	return p
}

// put delivers packets; each is the next in order unless its fields differ.
func (b *bench) put(all ...packet.Packet) {
	for _, p := range all {
		b.wire.put(netip.MustParseAddr(there), p)
		b.psn = packet.NextPSN(p.PSN)
	}
}

// puts delivers packets in order.
func (b *bench) puts(ops ...packet.Opcode) {
	for _, op := range ops {
		b.put(b.packet(op))
	}
}

// dropped returns the drops since the last call, by cause.
func (b *bench) dropped() map[Drop]uint64 {
	m := map[Drop]uint64{}
	for i := range b.dev.counters.dropped {
		if n := b.dev.counters.dropped[i].Swap(0); n > 0 {
			m[Drop(i)] = n
		}
	}
	assert.Empty(b.t, b.wire.sent, "no holder is notified") // RIB-C9-165, RIB-C9-191
	return m
}

// only is a single packet dropped for a cause.
func only(d Drop) map[Drop]uint64 { return map[Drop]uint64{d: 1} }
