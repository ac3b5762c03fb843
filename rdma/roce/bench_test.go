package roce

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A testUC is a UC queue pair in RTS that tests send packets to.
type testUC struct {
	t    *testing.T
	dev  *Device
	wire *memWire
	pd   *ProtectionDomain
	q    *UC
	got  completionLog
	mem  []byte // the region's memory
	reg  *Region
	psn  uint32 // the next packet in order has it
}

const benchPSN = 100

func newTestUC(t *testing.T) *testUC {
	b := &testUC{t: t, wire: newNetwork().newWire(here), psn: benchPSN, mem: make([]byte, 8*pmtu)}
	b.wire.log = true
	b.dev = openDevice(t, b.wire, Config{})
	b.pd = b.dev.NewProtectionDomain()
	var err error
	b.reg, err = b.pd.Register(b.mem, rdma.RemoteWrite)
	require.NoError(t, err)
	b.q, err = b.pd.NewUC(UCConfig{Recv: &b.got, Access: rdma.RemoteWrite})
	require.NoError(t, err)
	require.NoError(t, b.q.Connect(b.peerAt(benchPSN), 0))
	return b
}

func (b *testUC) peerAt(psn uint32) Peer {
	return Peer{Address: Address{Addr: netip.MustParseAddr(there)}, QP: 9, PMTU: pmtu, PSN: psn}
}

// postRecv posts a receive with n bytes.
func (b *testUC) postRecv(n int) []byte {
	b.t.Helper()
	mem := make([]byte, n)
	require.NoError(b.t, b.q.PostRecv(Recv{Data: mem, ID: uint64(n)}))
	return mem
}

// nextPacket returns the next packet in order, with a payload as long as the
// opcode needs.
func (b *testUC) nextPacket(op packet.Opcode) packet.Packet {
	p := packet.Packet{
		BTH:       packet.BTH{Opcode: op, PKey: defaultPKey, DestQP: b.q.number, PSN: b.psn},
		RETH:      packet.RETH{RKey: uint32(b.reg.key), Length: 2 * pmtu},
		Immediate: 0xabcd, Payload: patternBytes(pmtu),
	}
	if op.Starts() && op.Ends() {
		p.RETH.Length = pmtu
	}
	return p
}

// deliverPackets delivers packets; each is the next in order unless its fields differ.
func (b *testUC) deliverPackets(all ...packet.Packet) {
	for _, p := range all {
		b.wire.injectPacket(netip.MustParseAddr(there), p)
		b.psn = packet.NextPSN(p.PSN)
	}
}

// deliverInOrder delivers packets in order.
func (b *testUC) deliverInOrder(ops ...packet.Opcode) {
	for _, op := range ops {
		b.deliverPackets(b.nextPacket(op))
	}
}

// takeDrops returns the drops since the last call, by cause.
func (b *testUC) takeDrops() map[Drop]uint64 {
	m := map[Drop]uint64{}
	for i := range b.dev.counters.dropped {
		if n := b.dev.counters.dropped[i].Swap(0); n > 0 {
			m[Drop(i)] = n
		}
	}
	assert.Empty(b.t, b.wire.sent, "no holder is notified") // RIB-C9-165, RIB-C9-191
	return m
}

// onlyDrop is a single packet dropped for a cause.
func onlyDrop(d Drop) map[Drop]uint64 { return map[Drop]uint64{d: 1} }
