package roce

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// TestWriteChecks checks each condition on an R_Key, and that memory stays
// unchanged.
func TestWriteChecks(t *testing.T) { // RIB-C9-170, RIB-C9-192.2.1
	b := newTestUC(t)
	readable, err := b.pd.Register(b.mem, rdma.RemoteRead)
	require.NoError(t, err)
	foreign, err := b.dev.NewProtectionDomain().Register(b.mem, rdma.RemoteWrite)
	require.NoError(t, err)
	gone, err := b.pd.Register(b.mem, rdma.RemoteWrite)
	require.NoError(t, err)
	gone.Deregister()
	gone.Deregister()
	size := uint64(len(b.mem))
	for _, tt := range []struct {
		name  string
		cause Drop
		h     packet.RETH
	}{
		{"key", dropRKey, packet.RETH{RKey: uint32(b.reg.key) ^ 1, Length: pmtu}},
		{"gone", dropRKey, packet.RETH{RKey: uint32(gone.key), Length: pmtu}},
		{"access", dropAccess, packet.RETH{RKey: uint32(readable.key), Length: pmtu}},
		{"domain", dropDomain, packet.RETH{RKey: uint32(foreign.key), Length: pmtu}},
		{"end", dropBounds, packet.RETH{RKey: uint32(b.reg.key), VA: size - pmtu + 1, Length: pmtu}},
		{"beyond", dropBounds, packet.RETH{RKey: uint32(b.reg.key), VA: size + 1, Length: pmtu}},
		{"around", dropBounds, packet.RETH{RKey: uint32(b.reg.key), VA: 1<<64 - pmtu/2, Length: pmtu}},
		{"long", dropBounds, packet.RETH{RKey: uint32(b.reg.key), Length: 1<<32 - 1}},
		{"less than it says", dropBounds, packet.RETH{RKey: uint32(b.reg.key), Length: pmtu + 4}},
		{"more than it says", dropBounds, packet.RETH{RKey: uint32(b.reg.key), Length: pmtu - 4}},
		{"some data", dropBounds, packet.RETH{RKey: uint32(b.reg.key)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := b.nextPacket(packet.UCWriteOnly)
			p.RETH = tt.h
			b.deliverPackets(p)
			assert.Equal(t, onlyDrop(tt.cause), b.takeDrops())
			assert.Equal(t, make([]byte, size), b.mem)
		})
	}
	p := b.nextPacket(packet.UCWriteOnly)
	p.RETH.VA = size - pmtu
	b.deliverPackets(p)
	assert.Empty(t, b.takeDrops())
	assert.Equal(t, patternBytes(pmtu), b.mem[size-pmtu:], "up to the end")
}

// TestWritePackets checks that the conditions hold for every packet.
func TestWritePackets(t *testing.T) {
	b := newTestUC(t)
	b.deliverInOrder(packet.UCWriteFirst, packet.UCWriteMiddle) // leaves nothing for a last packet
	assert.Equal(t, onlyDrop(dropBounds), b.takeDrops())        // RIB-C9-192.2.1
	first := b.nextPacket(packet.UCWriteFirst)
	first.RETH.Length = 3 * pmtu
	b.deliverPackets(first)
	b.deliverInOrder(packet.UCWriteLast)
	assert.Equal(t, onlyDrop(dropBounds), b.takeDrops()) // RIB-C9-192.2.1

	clear(b.mem)
	b.deliverInOrder(packet.UCWriteFirst)
	b.reg.Deregister()
	clear(b.mem)
	b.deliverInOrder(packet.UCWriteLast)
	assert.Equal(t, onlyDrop(dropRKey), b.takeDrops()) // RIB-C9-192.2.1
	assert.Equal(t, make([]byte, len(b.mem)), b.mem, "no data without the region")
	assert.EqualValues(t, 3, b.dev.Stats().Broken)
}

// TestWriteOfNothing checks that an empty write ignores its R_Key.
func TestWriteOfNothing(t *testing.T) {
	b := newTestUC(t)
	b.postRecv(0)
	for _, op := range []packet.Opcode{packet.UCWriteOnly, packet.UCWriteOnlyImmediate} {
		p := b.nextPacket(op)
		p.RETH, p.Payload = packet.RETH{VA: 1 << 63, RKey: 0xdeadbeef}, nil
		b.deliverPackets(p)
		assert.Empty(t, b.takeDrops()) // RIB-C9-193
	}
	all := b.got.takeAll()
	require.Len(t, all, 1)
	assert.Equal(t, rdma.OpWrite, all[0].Op)
	assert.EqualValues(t, 0xabcd, all[0].Immediate)
}

// TestLocalFaults checks that missing memory ends the queue pair, with the
// current receive.
func TestLocalFaults(t *testing.T) { // RIB-P11
	gone := truncatedMapping(t)
	t.Run("receive", func(t *testing.T) {
		b := newTestUC(t)
		require.NoError(t, b.q.PostRecv(Recv{Data: gone, ID: 1}, Recv{ID: 2}))
		b.deliverInOrder(packet.UCSendOnly)
		all := b.got.takeAll()
		require.Len(t, all, 2)
		require.ErrorIs(t, all[0].Err, ErrFault)
		require.ErrorIs(t, all[1].Err, rdma.ErrFlushed)
		require.ErrorIs(t, b.q.Err(), ErrFault)
	})
	t.Run("region", func(t *testing.T) {
		b := newTestUC(t)
		r, err := b.pd.Register(gone, rdma.RemoteWrite)
		require.NoError(t, err)
		b.postRecv(1)
		p := b.nextPacket(packet.UCWriteOnly)
		p.RETH.RKey = uint32(r.STag())
		b.deliverPackets(p)
		require.ErrorIs(t, b.got.takeAll()[0].Err, rdma.ErrFlushed)
		require.ErrorIs(t, b.q.Err(), ErrFault)
		assert.Zero(t, b.dev.Stats().Received.Messages)
	})
}

// TestOrderOfChecks checks fault pairs in the receive queue's own checks: the
// first is the cause.
func TestOrderOfChecks(t *testing.T) { // RIB-C9-171
	faults := []struct { // in their order
		cause  Drop
		change func(*testUC, *packet.Packet)
	}{
		{dropPSN, func(_ *testUC, p *packet.Packet) { p.PSN += 3 }},
		{dropSequence, func(b *testUC, _ *packet.Packet) { b.q.current = inboundMessage{} }},
		{dropOpcode, func(b *testUC, _ *packet.Packet) { b.q.access = 0 }},
		{dropPad, func(_ *testUC, p *packet.Packet) { p.Pad, p.Payload = 1, p.Payload[:pmtu-1] }},
		{dropPayload, func(_ *testUC, p *packet.Packet) { p.Payload = p.Payload[:len(p.Payload)/4*4-4+int(-p.Pad&3)] }},
		{dropRKey, func(b *testUC, _ *packet.Packet) { b.reg.Deregister() }},
	}
	for i, first := range faults {
		for _, second := range faults[i:] {
			b := newTestUC(t)
			head := b.nextPacket(packet.UCWriteFirst)
			head.RETH.Length = 4 * pmtu
			b.deliverPackets(head)
			p := b.nextPacket(packet.UCWriteMiddle)
			first.change(b, &p)
			if second.cause != first.cause {
				second.change(b, &p)
			}
			b.deliverPackets(p)
			assert.Equal(t, onlyDrop(first.cause), b.takeDrops(), "and %v", second.cause)
		}
	}
	// R_Key, then receive, then length.
	b := newTestUC(t)
	p := b.nextPacket(packet.UCWriteOnlyImmediate)
	p.RETH.RKey, p.Payload = 0, nil
	b.deliverPackets(p)
	assert.Equal(t, onlyDrop(dropRKey), b.takeDrops())
	p.RETH.RKey, p.PSN = uint32(b.reg.key), b.psn
	b.deliverPackets(p)
	assert.Equal(t, onlyDrop(dropNoRecv), b.takeDrops())
	b.postRecv(0)
	p.PSN = b.psn
	b.deliverPackets(p)
	assert.Equal(t, onlyDrop(dropBounds), b.takeDrops())
}
