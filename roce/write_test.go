package roce

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// TestWriteChecks checks each condition on an R_Key, and that memory stays
// unchanged.
func TestWriteChecks(t *testing.T) { // RIB-C9-170, RIB-C9-192.2.1
	b := newBench(t)
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
		{"key", DropRKey, packet.RETH{RKey: uint32(b.reg.key) ^ 1, Length: pmtu}},
		{"gone", DropRKey, packet.RETH{RKey: uint32(gone.key), Length: pmtu}},
		{"access", DropAccess, packet.RETH{RKey: uint32(readable.key), Length: pmtu}},
		{"domain", DropDomain, packet.RETH{RKey: uint32(foreign.key), Length: pmtu}},
		{"end", DropBounds, packet.RETH{RKey: uint32(b.reg.key), VA: size - pmtu + 1, Length: pmtu}},
		{"beyond", DropBounds, packet.RETH{RKey: uint32(b.reg.key), VA: size + 1, Length: pmtu}},
		{"around", DropBounds, packet.RETH{RKey: uint32(b.reg.key), VA: 1<<64 - pmtu/2, Length: pmtu}},
		{"long", DropBounds, packet.RETH{RKey: uint32(b.reg.key), Length: 1<<32 - 1}},
		{"less than it says", DropBounds, packet.RETH{RKey: uint32(b.reg.key), Length: pmtu + 4}},
		{"more than it says", DropBounds, packet.RETH{RKey: uint32(b.reg.key), Length: pmtu - 4}},
		{"some data", DropBounds, packet.RETH{RKey: uint32(b.reg.key)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := b.packet(packet.UCWriteOnly)
			p.RETH = tt.h
			b.put(p)
			assert.Equal(t, only(tt.cause), b.dropped())
			assert.Equal(t, make([]byte, size), b.mem)
		})
	}
	p := b.packet(packet.UCWriteOnly)
	p.RETH.VA = size - pmtu
	b.put(p)
	assert.Empty(t, b.dropped())
	assert.Equal(t, numbered(pmtu), b.mem[size-pmtu:], "up to the end")
}

// TestWritePackets checks that the conditions hold for every packet.
func TestWritePackets(t *testing.T) {
	b := newBench(t)
	b.puts(packet.UCWriteFirst, packet.UCWriteMiddle) // leaves nothing for a last packet
	assert.Equal(t, only(DropBounds), b.dropped())    // RIB-C9-192.2.1
	first := b.packet(packet.UCWriteFirst)
	first.RETH.Length = 3 * pmtu
	b.put(first)
	b.puts(packet.UCWriteLast)
	assert.Equal(t, only(DropBounds), b.dropped()) // RIB-C9-192.2.1

	clear(b.mem)
	b.puts(packet.UCWriteFirst)
	b.reg.Deregister()
	clear(b.mem)
	b.puts(packet.UCWriteLast)
	assert.Equal(t, only(DropRKey), b.dropped()) // RIB-C9-192.2.1
	assert.Equal(t, make([]byte, len(b.mem)), b.mem, "no data without the region")
	assert.EqualValues(t, 3, b.dev.Stats().Broken)
}

// TestWriteOfNothing checks that an empty write ignores its R_Key.
func TestWriteOfNothing(t *testing.T) {
	b := newBench(t)
	b.recv(0)
	for _, op := range []packet.Opcode{packet.UCWriteOnly, packet.UCWriteOnlyImmediate} {
		p := b.packet(op)
		p.RETH, p.Payload = packet.RETH{VA: 1 << 63, RKey: 0xdeadbeef}, nil
		b.put(p)
		assert.Empty(t, b.dropped()) // RIB-C9-193
	}
	all := b.got.take()
	require.Len(t, all, 1)
	assert.Equal(t, rdma.OpWrite, all[0].Op)
	assert.EqualValues(t, 0xabcd, all[0].Immediate)
}

// TestLocalFaults checks that missing memory ends the queue pair, with the
// current receive.
func TestLocalFaults(t *testing.T) { // RIB-P11
	gone := cutShort(t)
	t.Run("receive", func(t *testing.T) {
		b := newBench(t)
		require.NoError(t, b.q.PostRecv(Recv{Data: gone, ID: 1}, Recv{ID: 2}))
		b.puts(packet.UCSendOnly)
		all := b.got.take()
		require.Len(t, all, 2)
		require.ErrorIs(t, all[0].Err, ErrFault)
		require.ErrorIs(t, all[1].Err, rdma.ErrFlushed)
		require.ErrorIs(t, b.q.Err(), ErrFault)
	})
	t.Run("region", func(t *testing.T) {
		b := newBench(t)
		r, err := b.pd.Register(gone, rdma.RemoteWrite)
		require.NoError(t, err)
		b.recv(1)
		p := b.packet(packet.UCWriteOnly)
		p.RETH.RKey = uint32(r.STag())
		b.put(p)
		require.ErrorIs(t, b.got.take()[0].Err, rdma.ErrFlushed)
		require.ErrorIs(t, b.q.Err(), ErrFault)
		assert.Zero(t, b.dev.Stats().Received.Messages)
	})
}

// TestOrderOfChecks checks pairs of faults in the receive queue's own checks:
// the first is the cause.
func TestOrderOfChecks(t *testing.T) { // RIB-C9-171
	faults := []struct { // in their order
		cause  Drop
		change func(*bench, *packet.Packet)
	}{
		{DropPSN, func(_ *bench, p *packet.Packet) { p.PSN += 3 }},
		{DropSequence, func(b *bench, _ *packet.Packet) { b.q.current = message{} }},
		{DropOpcode, func(b *bench, _ *packet.Packet) { b.q.access = 0 }},
		{DropPad, func(_ *bench, p *packet.Packet) { p.Pad, p.Payload = 1, p.Payload[:pmtu-1] }},
		{DropPayload, func(_ *bench, p *packet.Packet) { p.Payload = p.Payload[:len(p.Payload)/4*4-4+int(-p.Pad&3)] }},
		{DropRKey, func(b *bench, _ *packet.Packet) { b.reg.Deregister() }},
	}
	for i, first := range faults {
		for _, second := range faults[i:] {
			b := newBench(t)
			head := b.packet(packet.UCWriteFirst)
			head.RETH.Length = 4 * pmtu
			b.put(head)
			p := b.packet(packet.UCWriteMiddle)
			first.change(b, &p)
			if second.cause != first.cause {
				second.change(b, &p)
			}
			b.put(p)
			assert.Equal(t, only(first.cause), b.dropped(), "and %v", second.cause)
		}
	}
	// R_Key, then receive, then length.
	b := newBench(t)
	p := b.packet(packet.UCWriteOnlyImmediate)
	p.RETH.RKey, p.Payload = 0, nil
	b.put(p)
	assert.Equal(t, only(DropRKey), b.dropped())
	p.RETH.RKey, p.PSN = uint32(b.reg.key), b.psn
	b.put(p)
	assert.Equal(t, only(DropNoRecv), b.dropped())
	b.recv(0)
	p.PSN = b.psn
	b.put(p)
	assert.Equal(t, only(DropBounds), b.dropped())
}
