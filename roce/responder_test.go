package roce

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// TestHeaderChecks checks each field that 9.6 requires, and two faults at a
// time: the first in the order of the checks is the cause.
func TestHeaderChecks(t *testing.T) {
	checks := []struct { // in their order
		cause  Drop
		change func(*packet.Packet)
	}{
		{DropVersion, func(p *packet.Packet) { p.Version = 1 }},
		{DropDestQP, func(p *packet.Packet) { p.DestQP = 1 }},
		{DropService, func(p *packet.Packet) { p.Opcode = packet.UDSendOnly }},
		{DropPKey, func(p *packet.Packet) { p.PKey = 0x8001 }},
	}
	for i, first := range checks {
		for _, second := range checks[i:] {
			b := newBench(t)
			mem := b.recv(pmtu)
			p := b.packet(packet.UCSendOnly)
			second.change(&p)
			first.change(&p)
			b.put(p)
			assert.Equal(t, only(first.cause), b.dropped(), "and %v", second.cause) // RIB-C9-165, RIB-C9-171
			assert.Empty(t, b.got.take())
			assert.Equal(t, make([]byte, pmtu), mem)
		}
	}

	b := newBench(t)
	b.recv(pmtu)
	p := b.packet(packet.UCSendOnly)
	b.wire.put(netip.MustParseAddr("10.0.0.3"), p)
	assert.Equal(t, only(DropAddress), b.dropped()) // RIB-C9-165
	p.PKey = 0x7fff
	b.put(p)
	assert.Empty(t, b.dropped(), "a limited member of our partition")
	assert.Len(t, b.got.take(), 1)

	net := Address{Addr: netip.MustParseAddr(here)}.network(&memWire{addr: netip.MustParseAddr(there)})
	whole := new(packet.Check).AppendICRC(&net, p.AppendTo(nil))
	for n := range 16 {
		b.wire.inject(Datagram{Network: net, Bytes: whole[:n]})
		assert.Equal(t, only(DropLength), b.dropped()) // RIB-C9-165
	}
	b.wire.inject(Datagram{Network: net, Bytes: whole[:len(whole)-1]})
	assert.Equal(t, only(DropLength), b.dropped())
	b.wire.inject(Datagram{Network: net, Bytes: whole[:16]})
	assert.Equal(t, only(DropICRC), b.dropped()) // RIB-C9-165
	whole[20] ^= 1
	for _, unseen := range []bool{false, true} {
		b.wire.inject(Datagram{Network: net, Bytes: whole, Unseen: unseen})
		assert.Equal(t, only(DropICRC), b.dropped()) // RIB-P12: the ICRC is there once; the VCRC is a link's
	}
	whole[20] ^= 1
	b.recv(pmtu)
	b.wire.inject(Datagram{Network: net, Bytes: whole, Unseen: true})
	assert.Empty(t, b.dropped())
	short := b.packet(packet.UCWriteOnly)
	short.BTH.Pad = 3
	b.wire.inject(Datagram{Network: net, Bytes: new(packet.Check).AppendICRC(&net, short.BTH.AppendTo(nil))})
	assert.Equal(t, only(DropLength), b.dropped(), "no room for its RETH")
	p.DestQP = packet.MulticastQP
	b.put(p)
	assert.Equal(t, only(DropDestQP), b.dropped(), "no group")
}

// TestResponderStates checks that only a receiving state takes packets or moves
// ePSN.
func TestResponderStates(t *testing.T) {
	b := newBench(t)
	b.q.Reset()
	b.puts(packet.UCSendOnly)
	require.NoError(t, b.q.Init())
	b.recv(pmtu)
	b.puts(packet.UCSendOnly)
	assert.Equal(t, map[Drop]uint64{DropState: 2}, b.dropped())
	require.NoError(t, b.q.ReadyToReceive(b.peer(55))) // RIB-P7: in Init, and in no other state
	require.ErrorIs(t, b.q.ReadyToReceive(b.peer(56)), errState)
	assert.EqualValues(t, 55, b.q.expect) // RIB-C9-181, RIB-C9-182
	b.psn = 55
	b.puts(packet.UCSendOnly)
	assert.Len(t, b.got.take(), 1, "RTR receives")
	assert.Zero(t, b.dev.Stats().Gaps)
	b.recv(1)
	b.q.Fail(nil)
	b.got.take()
	b.puts(packet.UCSendOnly)
	assert.Equal(t, only(DropState), b.dropped())
	assert.EqualValues(t, 56, b.q.expect) // RIB-C9-182
}

// TestResponderMessages checks complete messages of each operation.
func TestResponderMessages(t *testing.T) {
	b := newBench(t)
	b.psn = packet.Mask24 - 1
	b.q.Reset()
	require.NoError(t, b.q.Connect(b.peer(b.psn), 0))
	for _, size := range []int{0, 1, pmtu, pmtu + 1, 3*pmtu + 5} {
		for _, imm := range []bool{false, true} {
			for _, write := range []bool{false, true} {
				b.message(size, write, imm)
			}
		}
	}
	assert.Less(t, b.q.expect, uint32(100), "the number has wrapped") // RIB-C9-185
	s := b.dev.Stats()
	assert.Zero(t, s.Gaps)
	assert.EqualValues(t, 20, s.Received.Messages)
	assert.Empty(t, b.dropped())
}

// message delivers a message, and checks its effect.
func (b *bench) message(size int, write, imm bool) {
	t := b.t
	clear(b.mem)
	mem := b.recv(size + 3)
	data := numbered(size)
	for off, ends := 0, false; !ends; {
		n := min(pmtu, size-off)
		ends = off+n == size
		p := b.packet(packet.UCOpcode(write, off == 0, ends, imm))
		p.RETH.Length, p.RETH.VA = uint32(size), 2
		p.Payload, p.Pad, p.Solicited = data[off:off+n], packet.PadFor(n), ends
		assert.Empty(t, b.got.take(), "not before the end") // RIB-P12
		b.put(p)
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
		assert.Empty(t, b.got.take())
		b.q.mu.Lock()
		b.q.recvs.take()
		b.q.mu.Unlock()
		return
	}
	assert.Equal(t, []Completion{want}, b.got.take())
}

// TestOpcodePairs checks table 56 for all pairs of consecutive opcodes.
func TestOpcodePairs(t *testing.T) { // RIB-C9-167, RIB-C9-187
	for a := packet.UCSendFirst; a <= packet.UCWriteOnlyImmediate; a++ {
		for c := packet.UCSendFirst; c <= packet.UCWriteOnlyImmediate; c++ {
			b := newBench(t)
			b.recv(4 * pmtu)
			b.recv(4 * pmtu)
			wantA := map[Drop]uint64{}
			if !a.Starts() {
				wantA[DropSequence] = 1
			}
			b.puts(a)
			assert.Equal(t, wantA, b.dropped(), "%v", a)
			broken := b.dev.Stats().Broken

			open := a.Starts() && !a.Ends()
			fits := c.Starts() || open && a.Write() == c.Write()
			p := b.packet(c)
			middleOfTwo := fits && open && c == packet.UCWriteMiddle
			if middleOfTwo { // the message was meant to have two packets
				p.Opcode = packet.UCWriteLast
			}
			b.put(p)
			if fits {
				assert.Empty(t, b.dropped(), "%v, %v", a, c)
			} else {
				assert.Equal(t, only(DropSequence), b.dropped(), "%v, %v", a, c) // RIB-C9-188
			}
			abandoned := open && (c.Starts() || !fits)
			assert.Equal(t, abandoned, b.dev.Stats().Broken > broken, "%v, %v", a, c) // RIB-C9-189
		}
	}
}

// TestResynchronisation checks that first, first, last is the second message.
func TestResynchronisation(t *testing.T) {
	b := newBench(t)
	mem := b.recv(4 * pmtu)
	one, two := b.packet(packet.UCSendFirst), b.packet(packet.UCSendFirst)
	two.PSN = packet.NextPSN(one.PSN)
	two.Payload = bytes.Repeat([]byte{3}, pmtu)
	b.put(one, two)
	b.puts(packet.UCSendMiddle, packet.UCSendLast)
	all := b.got.take()
	require.Len(t, all, 1) // RIB-C9-189
	assert.Equal(t, 3*pmtu, all[0].Bytes)
	assert.Equal(t, two.Payload, mem[:pmtu], "the receive is used again, from its start")
	assert.EqualValues(t, 1, b.dev.Stats().Broken)

	// An opcode out of sequence ends the message, and drops the rest of it.
	b.recv(4 * pmtu)
	b.puts(packet.UCSendFirst, packet.UCWriteMiddle, packet.UCSendMiddle, packet.UCSendLast)
	assert.Equal(t, map[Drop]uint64{DropSequence: 3}, b.dropped()) // RIB-C9-188
	assert.Empty(t, b.got.take())
	b.puts(packet.UCSendOnly)
	assert.Len(t, b.got.take(), 1)
}

// TestLostPackets drops, repeats and swaps each packet of a message of four.
func TestLostPackets(t *testing.T) { // RIB-C9-166, RIB-C9-183, RIB-C9-186
	ops := []packet.Opcode{packet.UCSendFirst, packet.UCSendMiddle, packet.UCSendMiddle, packet.UCSendLast}
	for i := range ops {
		for _, what := range []string{"lost", "twice", "swapped"} {
			t.Run(fmt.Sprintf("%s %d", what, i), func(t *testing.T) {
				b := newBench(t)
				b.recv(4 * pmtu)
				var all []packet.Packet
				for j, op := range ops {
					p := b.packet(op)
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
				b.put(all...)
				assert.Len(t, b.got.take(), whole) // RIB-P12
				s := b.dev.Stats()
				assert.Equal(t, what != "swapped" || i > 0, s.Gaps > 0 || what == "lost" && i == 3) // RIB-o9-131
				b.recv(4 * pmtu)
				b.psn = 0x777777
				b.puts(ops...)
				assert.Len(t, b.got.take(), 1, "the next message is whole") // RIB-C9-184
			})
		}
	}
}

// TestJump checks that a start is in order with any PSN.
func TestJump(t *testing.T) {
	b := newBench(t)
	for _, psn := range []uint32{5, 5, 4, 0xabcdef, packet.Mask24, 0} {
		b.recv(pmtu)
		b.psn = psn
		b.puts(packet.UCSendOnly)
		assert.Len(t, b.got.take(), 1) // RIB-C9-184
		assert.Equal(t, packet.NextPSN(psn), b.q.expect)
	}
	assert.EqualValues(t, 5, b.dev.Stats().Gaps, "all except the last") // RIB-C9-183
	b.psn = 9
	b.puts(packet.UCSendMiddle)
	assert.Equal(t, only(DropPSN), b.dropped()) // RIB-C9-183
}
