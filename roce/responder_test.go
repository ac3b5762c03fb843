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

// recv posts a receive of n octets.
func (b *bench) recv(n int) []byte {
	b.t.Helper()
	mem := make([]byte, n)
	require.NoError(b.t, b.q.PostRecv(Recv{Data: mem, ID: uint64(n)}))
	return mem
}

// packet is the next in order, whose payload is as long as the opcode needs.
func (b *bench) packet(op packet.Opcode) packet.Packet {
	p := packet.Packet{
		BTH:       packet.BTH{Opcode: op, PKey: defaultPKey, DestQP: b.q.number, PSN: b.psn},
		RETH:      packet.RETH{RKey: uint32(b.reg.key), Length: 2 * pmtu},
		Immediate: 0xabcd, Payload: octets(pmtu),
	}
	if op.Starts() && op.Ends() {
		p.RETH.Length = pmtu
	}
	return p
}

// put delivers packets; each is the next in order unless it says otherwise.
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

// dropped is what was dropped since the last time, by cause.
func (b *bench) dropped() map[Drop]uint64 {
	m := map[Drop]uint64{}
	for i := range b.dev.counters.dropped {
		if n := b.dev.counters.dropped[i].Swap(0); n > 0 {
			m[Drop(i)] = n
		}
	}
	assert.Empty(b.t, b.wire.sent, "nobody is told") // RIB-C9-165, RIB-C9-191
	return m
}

// only is one packet dropped for a cause.
func only(d Drop) map[Drop]uint64 { return map[Drop]uint64{d: 1} }

// TestHeaderChecks has each field that 9.6 asks about, and two faults at a time:
// the first in the order of the checks is the cause.
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
		b.wire.inject(Datagram{Network: net, Octets: whole[:n]})
		assert.Equal(t, only(DropLength), b.dropped()) // RIB-C9-165
	}
	b.wire.inject(Datagram{Network: net, Octets: whole[:len(whole)-1]})
	assert.Equal(t, only(DropLength), b.dropped())
	b.wire.inject(Datagram{Network: net, Octets: whole[:16]})
	assert.Equal(t, only(DropICRC), b.dropped()) // RIB-C9-165
	whole[20] ^= 1
	for _, unseen := range []bool{false, true} {
		b.wire.inject(Datagram{Network: net, Octets: whole, Unseen: unseen})
		assert.Equal(t, only(DropICRC), b.dropped()) // RIB-P12: the ICRC is there once; the VCRC is a link's
	}
	whole[20] ^= 1
	b.recv(pmtu)
	b.wire.inject(Datagram{Network: net, Octets: whole, Unseen: true})
	assert.Empty(t, b.dropped())
	short := b.packet(packet.UCWriteOnly)
	short.BTH.Pad = 3
	b.wire.inject(Datagram{Network: net, Octets: new(packet.Check).AppendICRC(&net, short.BTH.AppendTo(nil))})
	assert.Equal(t, only(DropLength), b.dropped(), "no room for its RETH")
	p.DestQP = packet.MulticastQP
	b.put(p)
	assert.Equal(t, only(DropDestQP), b.dropped(), "no group")
}

// TestResponderStates: only a state that receives takes packets, or moves ePSN.
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

// TestResponderMessages has messages of each operation that come whole.
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
	assert.Less(t, b.q.expect, uint32(100), "it has come round") // RIB-C9-185
	s := b.dev.Stats()
	assert.Zero(t, s.Gaps)
	assert.EqualValues(t, 20, s.Received.Messages)
	assert.Empty(t, b.dropped())
}

// message delivers one, and holds what comes of it.
func (b *bench) message(size int, write, imm bool) {
	t := b.t
	clear(b.mem)
	mem := b.recv(size + 3)
	data := octets(size)
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
	want := Completion{QP: b.q.number, ID: uint64(size + 3), Received: true, Octets: size, Solicited: true}
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
	if write && !imm { // it takes no receive
		assert.Empty(t, b.got.take())
		b.q.mu.Lock()
		b.q.recvs.take()
		b.q.mu.Unlock()
		return
	}
	assert.Equal(t, []Completion{want}, b.got.take())
}

// TestOpcodePairs holds table 56 over all pairs of opcodes behind each other.
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
			if middleOfTwo { // the message was to be two packets long
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

// TestResynchronisation: first, first, last is the second message.
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
	assert.Equal(t, 3*pmtu, all[0].Octets)
	assert.Equal(t, two.Payload, mem[:pmtu], "the receive is used again, from its start")
	assert.EqualValues(t, 1, b.dev.Stats().Broken)

	// What cannot follow ends the message, and the rest of it goes too.
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
					if i == 0 || i == 3 { // begins again; or comes when all is done
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

// TestJump: a start is in order whatever its PSN is.
func TestJump(t *testing.T) {
	b := newBench(t)
	for _, psn := range []uint32{5, 5, 4, 0xabcdef, packet.Mask24, 0} {
		b.recv(pmtu)
		b.psn = psn
		b.puts(packet.UCSendOnly)
		assert.Len(t, b.got.take(), 1) // RIB-C9-184
		assert.Equal(t, packet.NextPSN(psn), b.q.expect)
	}
	assert.EqualValues(t, 5, b.dev.Stats().Gaps, "all but the last") // RIB-C9-183
	b.psn = 9
	b.puts(packet.UCSendMiddle)
	assert.Equal(t, only(DropPSN), b.dropped()) // RIB-C9-183
}

// TestUnsupported: what the queue pair does not do, and what nobody does.
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

// TestLengths has every wrong length and pad.
func TestLengths(t *testing.T) {
	sized := func(p packet.Packet, n int) packet.Packet {
		p.Payload, p.Pad = octets(n), packet.PadFor(n)
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

// TestReceives: no receive, or too small a one, drops the message; the receive
// stays for the next.
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
	small.Payload, small.Pad = octets(pmtu-1), 1
	b.put(small)
	assert.Len(t, b.got.take(), 1, "fits the receive that is still there")
	mem := b.recv(2*pmtu - 1)
	b.puts(packet.UCSendFirst, packet.UCSendLast)
	assert.Equal(t, only(DropRoom), b.dropped()) // RIB-C9-194
	assert.Empty(t, b.got.take())
	assert.Equal(t, make([]byte, pmtu-1), mem[pmtu:])
	b.puts(packet.UCWriteOnlyImmediate)
	assert.Len(t, b.got.take(), 1, "an RDMA WRITE needs no room in the receive")
}
