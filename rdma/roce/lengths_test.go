package roce

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// TestUnsupported checks opcodes that the queue pair does not support, and
// reserved opcodes.
func TestUnsupported(t *testing.T) {
	b := newTestUC(t)
	b.postRecv(pmtu)
	for op := packet.Opcode(0x2c); op < 0x40; op++ {
		b.deliverInOrder(op)
		assert.Equal(t, onlyDrop(dropOpcode), b.takeDrops(), "%v", op) // RIB-C9-190
	}
	b.q.access = 0
	for _, op := range []packet.Opcode{packet.UCWriteFirst, packet.UCWriteOnly, packet.UCWriteOnlyImmediate} {
		b.deliverInOrder(op)
		assert.Equal(t, onlyDrop(dropOpcode), b.takeDrops(), "%v", op) // RIB-C9-168, RIB-C9-190
	}
	assert.Equal(t, make([]byte, len(b.mem)), b.mem)
	assert.Empty(t, b.got.takeAll())
}

// TestLengths checks every wrong length and pad.
func TestLengths(t *testing.T) {
	sized := func(p packet.Packet, n int) packet.Packet {
		p.Payload, p.Pad = patternBytes(n), packet.PadFor(n)
		return p
	}
	for _, op := range []packet.Opcode{packet.UCSendFirst, packet.UCWriteFirst} {
		for _, n := range []int{0, pmtu - 4, pmtu + 4} {
			b := newTestUC(t)
			b.postRecv(4 * pmtu)
			b.deliverPackets(sized(b.nextPacket(op), n))
			assert.Equal(t, onlyDrop(dropPayload), b.takeDrops(), "%v of %d", op, n) // RIB-C9-195
			b = newTestUC(t)
			b.postRecv(4 * pmtu)
			b.deliverInOrder(op)
			b.deliverPackets(sized(b.nextPacket(op+1), n))
			assert.Equal(t, onlyDrop(dropPayload), b.takeDrops(), "%v of %d", op+1, n) // RIB-C9-195
		}
		for _, n := range []int{0, pmtu + 4} {
			b := newTestUC(t)
			b.postRecv(4 * pmtu)
			b.deliverInOrder(op)
			b.deliverPackets(sized(b.nextPacket(op+2), n))
			assert.Equal(t, onlyDrop(dropPayload), b.takeDrops(), "%v of %d", op+2, n) // RIB-C9-197
			assert.Empty(t, b.got.takeAll())
			assert.EqualValues(t, 1, b.dev.Stats().Broken)
		}
		b := newTestUC(t)
		b.postRecv(4 * pmtu)
		long := sized(b.nextPacket(op+4), pmtu+4)
		long.RETH.Length = pmtu + 4
		b.deliverPackets(long)
		assert.Equal(t, onlyDrop(dropPayload), b.takeDrops()) // RIB-C9-196
		for pad := uint8(1); pad < 4; pad++ {
			p := b.nextPacket(op)
			p.Pad, p.Payload = pad, p.Payload[:pmtu-int(pad)]
			b.deliverPackets(p)
			assert.Equal(t, onlyDrop(dropPad), b.takeDrops()) // RIB-C9-199
			b.deliverInOrder(op)
			p = b.nextPacket(op + 1)
			p.Pad, p.Payload = pad, p.Payload[:pmtu-int(pad)]
			b.deliverPackets(p)
			assert.Equal(t, onlyDrop(dropPad), b.takeDrops()) // RIB-C9-199
		}
	}
}

// TestReceives checks that a missing or too small receive drops the message.
// The receive stays for the next message.
func TestReceives(t *testing.T) {
	b := newTestUC(t)
	for _, op := range []packet.Opcode{packet.UCSendFirst, packet.UCSendOnly, packet.UCWriteOnlyImmediate} {
		b.deliverInOrder(op)
		assert.Equal(t, onlyDrop(dropNoRecv), b.takeDrops(), "%v", op) // RIB-C9-169
	}
	assert.Equal(t, make([]byte, len(b.mem)), b.mem, "not before all is checked")
	b.deliverInOrder(packet.UCWriteFirst, packet.UCWriteLastImmediate)
	assert.Equal(t, onlyDrop(dropNoRecv), b.takeDrops()) // RIB-C9-169

	b.postRecv(pmtu - 1)
	b.deliverInOrder(packet.UCSendOnly)
	assert.Equal(t, onlyDrop(dropTooLong), b.takeDrops()) // RIB-C9-194
	small := b.nextPacket(packet.UCSendOnly)
	small.Payload, small.Pad = patternBytes(pmtu-1), 1
	b.deliverPackets(small)
	assert.Len(t, b.got.takeAll(), 1, "fits the remaining receive")
	mem := b.postRecv(2*pmtu - 1)
	b.deliverInOrder(packet.UCSendFirst, packet.UCSendLast)
	assert.Equal(t, onlyDrop(dropTooLong), b.takeDrops()) // RIB-C9-194
	assert.Empty(t, b.got.takeAll())
	assert.Equal(t, make([]byte, pmtu-1), mem[pmtu:])
	b.deliverInOrder(packet.UCWriteOnlyImmediate)
	assert.Len(t, b.got.takeAll(), 1, "an RDMA WRITE needs no space in the receive")
}
