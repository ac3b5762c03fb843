package roce

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// TestHeaderChecks checks each field that 9.6 requires, and two faults at a
// time: the one that is checked first is the cause.
func TestHeaderChecks(t *testing.T) {
	checks := []struct { // in their order
		cause  Drop
		change func(*packet.Packet)
	}{
		{dropVersion, func(p *packet.Packet) { p.Version = 1 }},
		{dropDestQP, func(p *packet.Packet) { p.DestQP = 1 }},
		{dropService, func(p *packet.Packet) { p.Opcode = packet.UDSendOnly }},
		{dropPKey, func(p *packet.Packet) { p.PKey = 0x8001 }},
	}
	for i, first := range checks {
		for _, second := range checks[i:] {
			b := newTestUC(t)
			mem := b.postRecv(pmtu)
			p := b.nextPacket(packet.UCSendOnly)
			second.change(&p)
			first.change(&p)
			b.deliverPackets(p)
			assert.Equal(t, onlyDrop(first.cause), b.takeDrops(), "and %v", second.cause) // RIB-C9-165, RIB-C9-171
			assert.Empty(t, b.got.takeAll())
			assert.Equal(t, make([]byte, pmtu), mem)
		}
	}

	b := newTestUC(t)
	b.postRecv(pmtu)
	p := b.nextPacket(packet.UCSendOnly)
	b.wire.injectPacket(netip.MustParseAddr("10.0.0.3"), p)
	assert.Equal(t, onlyDrop(dropAddress), b.takeDrops()) // RIB-C9-165
	p.PKey = 0x7fff
	b.deliverPackets(p)
	assert.Empty(t, b.takeDrops(), "a limited member of our partition")
	assert.Len(t, b.got.takeAll(), 1)

	net := Address{Addr: netip.MustParseAddr(here)}.networkHeader(&memWire{addr: netip.MustParseAddr(there)})
	whole := new(packet.Check).AppendICRC(&net, p.AppendTo(nil))
	for n := range 16 {
		b.wire.injectDatagram(Datagram{Network: net, Bytes: whole[:n]})
		assert.Equal(t, onlyDrop(dropLength), b.takeDrops()) // RIB-C9-165
	}
	b.wire.injectDatagram(Datagram{Network: net, Bytes: whole[:len(whole)-1]})
	assert.Equal(t, onlyDrop(dropLength), b.takeDrops())
	b.wire.injectDatagram(Datagram{Network: net, Bytes: whole[:16]})
	assert.Equal(t, onlyDrop(dropICRC), b.takeDrops()) // RIB-C9-165
	whole[20] ^= 1
	for _, unseen := range []bool{false, true} {
		b.wire.injectDatagram(Datagram{Network: net, Bytes: whole, Unseen: unseen})
		assert.Equal(t, onlyDrop(dropICRC), b.takeDrops()) // RIB-P12: the ICRC is there once; the VCRC is a link's
	}
	whole[20] ^= 1
	b.postRecv(pmtu)
	b.wire.injectDatagram(Datagram{Network: net, Bytes: whole, Unseen: true})
	assert.Empty(t, b.takeDrops())
	short := b.nextPacket(packet.UCWriteOnly)
	short.BTH.Pad = 3
	b.wire.injectDatagram(Datagram{Network: net, Bytes: new(packet.Check).AppendICRC(&net, short.BTH.AppendTo(nil))})
	assert.Equal(t, onlyDrop(dropLength), b.takeDrops(), "no space for its RETH")
	p.DestQP = packet.MulticastQP
	b.deliverPackets(p)
	assert.Equal(t, onlyDrop(dropDestQP), b.takeDrops(), "no group")
}

// TestResponderStates checks that only a receiving state takes packets or moves
// ePSN.
func TestResponderStates(t *testing.T) {
	b := newTestUC(t)
	b.q.Reset()
	b.deliverInOrder(packet.UCSendOnly)
	require.NoError(t, b.q.Init())
	b.postRecv(pmtu)
	b.deliverInOrder(packet.UCSendOnly)
	assert.Equal(t, map[Drop]uint64{dropState: 2}, b.takeDrops())
	require.NoError(t, b.q.ReadyToReceive(b.peerAt(55))) // RIB-P7: in Init, and in no other state
	require.ErrorIs(t, b.q.ReadyToReceive(b.peerAt(56)), errState)
	assert.EqualValues(t, 55, b.q.expectedPSN) // RIB-C9-181, RIB-C9-182
	b.psn = 55
	b.deliverInOrder(packet.UCSendOnly)
	assert.Len(t, b.got.takeAll(), 1, "RTR receives")
	assert.Zero(t, b.dev.Stats().Gaps)
	b.postRecv(1)
	b.q.Fail(nil)
	b.got.takeAll()
	b.deliverInOrder(packet.UCSendOnly)
	assert.Equal(t, onlyDrop(dropState), b.takeDrops())
	assert.EqualValues(t, 56, b.q.expectedPSN) // RIB-C9-182
}

// TestResponderMessages checks complete messages for each operation.
func TestResponderMessages(t *testing.T) {
	b := newTestUC(t)
	b.psn = packet.Mask24 - 1
	b.q.Reset()
	require.NoError(t, b.q.Connect(b.peerAt(b.psn), 0))
	for _, size := range []int{0, 1, pmtu, pmtu + 1, 3*pmtu + 5} {
		for _, imm := range []bool{false, true} {
			for _, write := range []bool{false, true} {
				b.checkMessage(size, write, imm)
			}
		}
	}
	assert.Less(t, b.q.expectedPSN, uint32(100), "the number has wrapped") // RIB-C9-185
	s := b.dev.Stats()
	assert.Zero(t, s.Gaps)
	assert.EqualValues(t, 20, s.Received.Messages)
	assert.Empty(t, b.takeDrops())
}

// checkMessage delivers a message, and checks its effect.
func (b *testUC) checkMessage(size int, write, imm bool) {
	t := b.t
	clear(b.mem)
	mem := b.postRecv(size + 3)
	data := patternBytes(size)
	for off, ends := 0, false; !ends; {
		n := min(pmtu, size-off)
		ends = off+n == size
		p := b.nextPacket(packet.UCOpcode(write, off == 0, ends, imm))
		p.RETH.Length, p.RETH.VA = uint32(size), 2
		p.Payload, p.Pad, p.Solicited = data[off:off+n], packet.PadFor(n), ends
		assert.Empty(t, b.got.takeAll(), "not before the end") // RIB-P12
		b.deliverPackets(p)
		off += n
	}
	want := Completion{QP: b.q.number, ID: uint64(size + 3), Received: true, Bytes: size, Solicited: true}
	if imm {
		want.Immediate, want.WithImmediate = 0xabcd, true
	}
	where := mem
	if write {
		want.Op, where = rdma.OpWrite, b.mem[2:]
		assert.Equal(t, make([]byte, 2), b.mem[:2])
	}
	assert.True(t, bytes.Equal(data, where[:size]))
	assert.Equal(t, make([]byte, len(where)-size), where[size:])
	if write && !imm { // it uses no receive
		assert.Empty(t, b.got.takeAll())
		b.q.mu.Lock()
		b.q.recvs.takeAll()
		b.q.mu.Unlock()
		return
	}
	assert.Equal(t, []Completion{want}, b.got.takeAll())
}

// TestOpcodePairs checks table 56 for all consecutive opcode pairs.
func TestOpcodePairs(t *testing.T) { // RIB-C9-167, RIB-C9-187
	for a := packet.UCSendFirst; a <= packet.UCWriteOnlyImmediate; a++ {
		for c := packet.UCSendFirst; c <= packet.UCWriteOnlyImmediate; c++ {
			b := newTestUC(t)
			b.postRecv(4 * pmtu)
			b.postRecv(4 * pmtu)
			wantA := map[Drop]uint64{}
			if !a.Starts() {
				wantA[dropSequence] = 1
			}
			b.deliverInOrder(a)
			assert.Equal(t, wantA, b.takeDrops(), "%v", a)
			broken := b.dev.Stats().Broken

			open := a.Starts() && !a.Ends()
			fits := c.Starts() || open && a.Write() == c.Write()
			p := b.nextPacket(c)
			middleOfTwo := fits && open && c == packet.UCWriteMiddle
			if middleOfTwo { // the message was meant to have two packets
				p.Opcode = packet.UCWriteLast
			}
			b.deliverPackets(p)
			if fits {
				assert.Empty(t, b.takeDrops(), "%v, %v", a, c)
			} else {
				assert.Equal(t, onlyDrop(dropSequence), b.takeDrops(), "%v, %v", a, c) // RIB-C9-188
			}
			abandoned := open && (c.Starts() || !fits)
			assert.Equal(t, abandoned, b.dev.Stats().Broken > broken, "%v, %v", a, c) // RIB-C9-189
		}
	}
}

// TestResynchronisation checks that first, first, last is the second message.
func TestResynchronisation(t *testing.T) {
	b := newTestUC(t)
	mem := b.postRecv(4 * pmtu)
	one, two := b.nextPacket(packet.UCSendFirst), b.nextPacket(packet.UCSendFirst)
	two.PSN = packet.NextPSN(one.PSN)
	two.Payload = bytes.Repeat([]byte{3}, pmtu)
	b.deliverPackets(one, two)
	b.deliverInOrder(packet.UCSendMiddle, packet.UCSendLast)
	all := b.got.takeAll()
	require.Len(t, all, 1) // RIB-C9-189
	assert.Equal(t, 3*pmtu, all[0].Bytes)
	assert.Equal(t, two.Payload, mem[:pmtu], "the receive is used again, from its start")
	assert.EqualValues(t, 1, b.dev.Stats().Broken)

	// An opcode out of sequence ends the message, and drops what follows in it.
	b.postRecv(4 * pmtu)
	b.deliverInOrder(packet.UCSendFirst, packet.UCWriteMiddle, packet.UCSendMiddle, packet.UCSendLast)
	assert.Equal(t, map[Drop]uint64{dropSequence: 3}, b.takeDrops()) // RIB-C9-188
	assert.Empty(t, b.got.takeAll())
	b.deliverInOrder(packet.UCSendOnly)
	assert.Len(t, b.got.takeAll(), 1)
}

// TestLostPackets drops, repeats and swaps each packet in a four-packet
// message.
func TestLostPackets(t *testing.T) { // RIB-C9-166, RIB-C9-183, RIB-C9-186
	ops := []packet.Opcode{packet.UCSendFirst, packet.UCSendMiddle, packet.UCSendMiddle, packet.UCSendLast}
	for i := range ops {
		for _, what := range []string{"lost", "twice", "swapped"} {
			t.Run(fmt.Sprintf("%s %d", what, i), func(t *testing.T) {
				b := newTestUC(t)
				b.postRecv(4 * pmtu)
				var all []packet.Packet
				for j, op := range ops {
					p := b.nextPacket(op)
					p.PSN += uint32(j)
					all = append(all, p)
				}
				whole := 0
				switch {
				case what == "lost":
					all = append(all[:i], all[i+1:]...)
				case what == "twice":
					all = append(all[:i+1], all[i:]...)
					if i == 0 || i == 3 { // begins again, or comes after the end
						whole = 1
					}
				case i > 0:
					all[i-1], all[i] = all[i], all[i-1]
				default:
					whole = 1
				}
				b.deliverPackets(all...)
				assert.Len(t, b.got.takeAll(), whole) // RIB-P12
				s := b.dev.Stats()
				assert.Equal(t, what != "swapped" || i > 0, s.Gaps > 0 || what == "lost" && i == 3) // RIB-o9-131
				b.postRecv(4 * pmtu)
				b.psn = 0x777777
				b.deliverInOrder(ops...)
				assert.Len(t, b.got.takeAll(), 1, "the next message is whole") // RIB-C9-184
			})
		}
	}
}

// TestJump checks that a start is in order with any PSN.
func TestJump(t *testing.T) {
	b := newTestUC(t)
	for _, psn := range []uint32{5, 5, 4, 0xabcdef, packet.Mask24, 0} {
		b.postRecv(pmtu)
		b.psn = psn
		b.deliverInOrder(packet.UCSendOnly)
		assert.Len(t, b.got.takeAll(), 1) // RIB-C9-184
		assert.Equal(t, packet.NextPSN(psn), b.q.expectedPSN)
	}
	assert.EqualValues(t, 5, b.dev.Stats().Gaps, "all except the last") // RIB-C9-183
	b.psn = 9
	b.deliverInOrder(packet.UCSendMiddle)
	assert.Equal(t, onlyDrop(dropPSN), b.takeDrops()) // RIB-C9-183
}
