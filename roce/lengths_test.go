package roce

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// TestUnsupported checks opcodes that the queue pair does not support, and
// reserved opcodes.
func TestUnsupported(t *testing.T) {
	b := newBench(t)
	b.recv(pmtu)
	for op := packet.Opcode(0x2c); op < 0x40; op++ {
		b.puts(op)
		assert.Equal(t, only(DropOpcode), b.dropped(), "%v", op) // RIB-C9-190
	}
	b.q.access = 0
	for _, op := range []packet.Opcode{packet.UCWriteFirst, packet.UCWriteOnly, packet.UCWriteOnlyImmediate} {
		b.puts(op)
		assert.Equal(t, only(DropOpcode), b.dropped(), "%v", op) // RIB-C9-168, RIB-C9-190
	}
	assert.Equal(t, make([]byte, len(b.mem)), b.mem)
	assert.Empty(t, b.got.take())
}

// TestLengths checks every wrong length and pad.
func TestLengths(t *testing.T) {
	sized := func(p packet.Packet, n int) packet.Packet {
		p.Payload, p.Pad = numbered(n), packet.PadFor(n)
		return p
	}
	for _, op := range []packet.Opcode{packet.UCSendFirst, packet.UCWriteFirst} {
		for _, n := range []int{0, pmtu - 4, pmtu + 4} {
			b := newBench(t)
			b.recv(4 * pmtu)
			b.put(sized(b.packet(op), n))
			assert.Equal(t, only(DropPayload), b.dropped(), "%v of %d", op, n) // RIB-C9-195
			b = newBench(t)
			b.recv(4 * pmtu)
			b.puts(op)
			b.put(sized(b.packet(op+1), n))
			assert.Equal(t, only(DropPayload), b.dropped(), "%v of %d", op+1, n) // RIB-C9-195
		}
		for _, n := range []int{0, pmtu + 4} {
			b := newBench(t)
			b.recv(4 * pmtu)
			b.puts(op)
			b.put(sized(b.packet(op+2), n))
			assert.Equal(t, only(DropPayload), b.dropped(), "%v of %d", op+2, n) // RIB-C9-197
			assert.Empty(t, b.got.take())
			assert.EqualValues(t, 1, b.dev.Stats().Broken)
		}
		b := newBench(t)
		b.recv(4 * pmtu)
		long := sized(b.packet(op+4), pmtu+4)
		long.RETH.Length = pmtu + 4
		b.put(long)
		assert.Equal(t, only(DropPayload), b.dropped()) // RIB-C9-196
		for pad := uint8(1); pad < 4; pad++ {
			p := b.packet(op)
			p.Pad, p.Payload = pad, p.Payload[:pmtu-int(pad)]
			b.put(p)
			assert.Equal(t, only(DropPad), b.dropped()) // RIB-C9-199
			b.puts(op)
			p = b.packet(op + 1)
			p.Pad, p.Payload = pad, p.Payload[:pmtu-int(pad)]
			b.put(p)
			assert.Equal(t, only(DropPad), b.dropped()) // RIB-C9-199
		}
	}
}

// TestReceives checks that a missing or too small receive drops the message.
// The receive stays for the next message.
func TestReceives(t *testing.T) {
	b := newBench(t)
	for _, op := range []packet.Opcode{packet.UCSendFirst, packet.UCSendOnly, packet.UCWriteOnlyImmediate} {
		b.puts(op)
		assert.Equal(t, only(DropNoRecv), b.dropped(), "%v", op) // RIB-C9-169
	}
	assert.Equal(t, make([]byte, len(b.mem)), b.mem, "not before all is checked")
	b.puts(packet.UCWriteFirst, packet.UCWriteLastImmediate)
	assert.Equal(t, only(DropNoRecv), b.dropped()) // RIB-C9-169

	b.recv(pmtu - 1)
	b.puts(packet.UCSendOnly)
	assert.Equal(t, only(DropRoom), b.dropped()) // RIB-C9-194
	small := b.packet(packet.UCSendOnly)
	small.Payload, small.Pad = numbered(pmtu-1), 1
	b.put(small)
	assert.Len(t, b.got.take(), 1, "fits the remaining receive")
	mem := b.recv(2*pmtu - 1)
	b.puts(packet.UCSendFirst, packet.UCSendLast)
	assert.Equal(t, only(DropRoom), b.dropped()) // RIB-C9-194
	assert.Empty(t, b.got.take())
	assert.Equal(t, make([]byte, pmtu-1), mem[pmtu:])
	b.puts(packet.UCWriteOnlyImmediate)
	assert.Len(t, b.got.take(), 1, "an RDMA WRITE needs no room in the receive")
}
