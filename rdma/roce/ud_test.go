package roce

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

const qkey = 0x11111111

// An testUD is a UD queue pair in RTS.
type testUD struct {
	*UD
	dev  *Device
	wire *memWire
	got  completionLog
}

func newTestUD(t *testing.T, n *memNetwork, addr string, cfg Config) *testUD {
	e := &testUD{wire: n.newWire(addr)}
	e.wire.log = true
	e.dev = openDevice(t, e.wire, cfg)
	var err error
	e.UD, err = e.dev.NewProtectionDomain().NewUD(UDConfig{Recv: &e.got})
	require.NoError(t, err)
	require.NoError(t, e.Start(qkey))
	return e
}

// destination returns the end's address.
func (e *testUD) destination() Destination {
	return Destination{Address: Address{Addr: e.dev.Addr()}, QP: e.Number(), QKey: qkey}
}

func (e *testUD) postRecv(t *testing.T, n int) []byte {
	mem := make([]byte, GRHLen+n)
	require.NoError(t, e.PostRecv(Recv{Data: mem, ID: 5}))
	return mem
}

// takeDrops returns the device's drops since the last call.
func takeDrops(d *Device) map[Drop]uint64 {
	m := map[Drop]uint64{}
	for i := range d.counters.dropped {
		if n := d.counters.dropped[i].Swap(0); n > 0 {
			m[Drop(i)] = n
		}
	}
	return m
}

// TestUD checks that each message goes to its own destination, and that the
// receiver learns the sender.
func TestUD(t *testing.T) { // RIB-C9-201, RIB-C9-203
	n := newNetwork()
	a, b, c := newTestUD(t, n, here, Config{}), newTestUD(t, n, there, Config{}), newTestUD(t, n, "10.0.0.3", Config{})
	for i, size := range []int{0, 1, 999, a.dev.MaxPMTU()} {
		for _, to := range []*testUD{b, c} {
			mem := to.postRecv(t, size)
			var done completionLog
			wr := WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(size)}, To: to.destination(), Done: &done, ID: 3, Solicited: true, Immediate: 8, WithImmediate: i%2 == 1}
			require.NoError(t, a.Post(wr))
			assert.Equal(t, []Completion{{QP: a.Number(), ID: 3}}, done.takeAll()) // RIB-P15
			want := Completion{
				QP: to.Number(), ID: 5, Received: true, Bytes: GRHLen + size, Solicited: true,
				From: Source{Addr: a.dev.Addr(), QP: a.Number()}, // RIB-P13
			}
			if wr.WithImmediate {
				want.Immediate, want.WithImmediate = 8, true
			}
			assert.Equal(t, []Completion{want}, to.got.takeAll()) // RIB-P17
			assert.Equal(t, patternBytes(size), mem[GRHLen:])
			from, err := packet.SourceOf(mem)
			require.NoError(t, err)
			assert.Equal(t, a.dev.Addr(), addrOf(from))
		}
	}
	assert.Len(t, a.wire.sent, 8) // RIB-C9-200
	for psn, p := range a.wire.sentPackets(t) {
		assert.EqualValues(t, psn, p.PSN) // RIB-C9-204
		assert.Equal(t, a.Number(), p.DETH.SrcQP)
	}

	require.Error(t, a.Post(WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(a.dev.MaxPMTU() + 1)}, To: b.destination()})) // RIB-C9-200
	require.Error(t, a.Post(WR{Op: rdma.OpWrite, To: b.destination()}))
	require.Error(t, a.Post(WR{Op: rdma.OpSend}))
	bad := b.destination()
	bad.QP = packet.MulticastQP
	require.Error(t, a.Post(WR{Op: rdma.OpSend, To: bad}))
	bad.QP = 1 << 24
	require.Error(t, a.Post(WR{Op: rdma.OpSend, To: bad}))
	assert.Empty(t, a.wire.sent)

	// PSNs are ignored, and wrap around.
	a.Reset()
	require.NoError(t, a.Init(qkey))
	require.NoError(t, a.ReadyToReceive())
	require.ErrorIs(t, a.Post(WR{Op: rdma.OpSend, To: b.destination()}), errState)
	require.NoError(t, a.ReadyToSend(packet.Mask24)) // RIB-C9-204
	b.postRecv(t, 0)
	b.postRecv(t, 0)
	require.NoError(t, a.Post(WR{Op: rdma.OpSend, To: b.destination()}, WR{Op: rdma.OpSend, To: b.destination()}))
	ps := a.wire.sentPackets(t)
	assert.EqualValues(t, packet.Mask24, ps[0].PSN)
	assert.Zero(t, ps[1].PSN)
	assert.Len(t, b.got.takeAll(), 2) // RIB-o9-144
}

// TestUDNoWay checks that a datagram that cannot leave, or whose memory is
// gone, fails alone.
func TestUDNoWay(t *testing.T) {
	n := newNetwork()
	a, b := newTestUD(t, n, here, Config{}), newTestUD(t, n, there, Config{})
	nowhere := errors.New("no way")
	far := b.destination()
	far.Addr = netip.MustParseAddr("10.9.9.9")
	a.wire.refuse[far.Addr] = nowhere
	var done completionLog
	wrs := make([]WR, 40)
	for i := range wrs {
		b.postRecv(t, 4)
		wrs[i] = WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(4)}, To: b.destination(), Done: &done, ID: uint64(i)}
	}
	wrs[3].To, wrs[20].To = far, far
	wrs[30].Data = [][]byte{truncatedMapping(t)[:8]}
	require.NoError(t, a.Post(wrs...))
	for i, c := range done.takeAll() {
		assert.EqualValues(t, i, c.ID)
		switch i {
		case 3, 20:
			require.ErrorIs(t, c.Err, nowhere) // RIB-P15
		case 30:
			require.ErrorIs(t, c.Err, ErrFault)
		default:
			require.NoError(t, c.Err)
		}
	}
	assert.Len(t, b.got.takeAll(), 37)
	for psn, p := range a.wire.sentPackets(t) {
		assert.EqualValues(t, psn, p.PSN, "an unsent message uses no number") // RIB-C9-204
	}
	assert.Equal(t, RTS, a.State())
}

// TestUDDrops checks the datagrams that a UD receive queue drops; none uses up
// a receive.
func TestUDDrops(t *testing.T) { // RIB-C9-202
	b := newTestUD(t, newNetwork(), there, Config{})
	from := netip.MustParseAddr(here)
	good := packet.Packet{
		BTH:     packet.BTH{Opcode: packet.UDSendOnly, PKey: defaultPKey, DestQP: b.Number(), PSN: 77},
		DETH:    packet.DETH{QKey: qkey, SrcQP: 9},
		Payload: patternBytes(100),
	}
	b.wire.injectPacket(from, good)
	assert.Equal(t, onlyDrop(dropNoRecv), takeDrops(b.dev)) // RIB-C9-207
	b.postRecv(t, 99)
	for _, tt := range []struct {
		cause  Drop
		change func(*packet.Packet)
	}{
		{dropVersion, func(p *packet.Packet) { p.Version = 2 }},
		{dropDestQP, func(p *packet.Packet) { p.DestQP = 1 }},
		{dropService, func(p *packet.Packet) { p.Opcode = packet.UCWriteOnly }},
		{dropService, func(p *packet.Packet) { p.Opcode = 0x04 }},
		{dropPKey, func(p *packet.Packet) { p.PKey = 3 }},
		{dropQKey, func(p *packet.Packet) { p.DETH.QKey++ }},
		{dropOpcode, func(p *packet.Packet) { p.Opcode = 0x6a }}, // RIB-C9-206: an RDMA WRITE, if there were one
		{dropOpcode, func(p *packet.Packet) { p.Opcode = 0x7f }}, // RIB-C9-206
		{dropTooLong, func(*packet.Packet) {}},                   // RIB-C9-205
		{dropPayload, func(p *packet.Packet) { p.Payload = patternBytes(4100) }},
		{dropLength, func(p *packet.Packet) { p.Pad, p.Payload = 0, patternBytes(3) }},
	} {
		p := good
		tt.change(&p)
		b.wire.injectPacket(from, p)
		assert.Equal(t, onlyDrop(tt.cause), takeDrops(b.dev), "%+v", p.BTH) // RIB-C9-165, RIB-C9-205
	}
	assert.Empty(t, b.got.takeAll())
	assert.Equal(t, 1, b.recvs.n) // RIB-P17
	good.Payload, good.Pad = patternBytes(99), 1
	b.wire.injectPacket(from, good)
	assert.Len(t, b.got.takeAll(), 1)

	require.NoError(t, b.PostRecv(Recv{Data: truncatedMapping(t)}, Recv{ID: 2}))
	b.wire.injectPacket(from, good)
	all := b.got.takeAll()
	require.ErrorIs(t, all[0].Err, ErrFault)
	require.ErrorIs(t, all[1].Err, rdma.ErrFlushed)
	b.wire.injectPacket(from, good)
	assert.Equal(t, onlyDrop(dropState), takeDrops(b.dev))
}

// TestQKeys checks that a controlled Q_Key in a work request means the queue
// pair's own, and that only privileged queue pairs have a controlled one.
func TestQKeys(t *testing.T) {
	n := newNetwork()
	a, b := newTestUD(t, n, here, Config{Controlled: true}), newTestUD(t, n, there, Config{})
	to := b.destination()
	to.QKey = 0x80000000
	b.postRecv(t, 0)
	require.NoError(t, a.Post(WR{Op: rdma.OpSend, To: to}))
	assert.Len(t, b.got.takeAll(), 1, "both have the same Q_Key")
	assert.EqualValues(t, qkey, a.wire.sentPackets(t)[0].DETH.QKey)

	a.Reset()
	require.NoError(t, a.Start(0x80010000))
	require.NoError(t, a.Post(WR{Op: rdma.OpSend, To: to}))
	assert.EqualValues(t, 0x80010000, a.wire.sentPackets(t)[0].DETH.QKey)
	assert.Equal(t, onlyDrop(dropQKey), takeDrops(b.dev))
	b.Reset()
	require.Error(t, b.Start(0x80010000))
}

// TestMulticast checks that all members get messages to the group, each in its
// own receive, and that others do not.
func TestMulticast(t *testing.T) {
	n := newNetwork()
	group := netip.MustParseAddr("239.1.2.3")
	a, b := newTestUD(t, n, here, Config{}), newTestUD(t, n, there, Config{})
	second, err := b.dev.NewProtectionDomain().NewUD(UDConfig{Recv: &b.got})
	require.NoError(t, err)
	require.NoError(t, second.Start(qkey))
	require.NoError(t, second.PostRecv(Recv{Data: make([]byte, 100)}))
	to := Destination{Address: Address{Addr: group}, QP: packet.MulticastQP, QKey: qkey}
	send := WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(9)}, To: to}

	require.Error(t, b.Join(netip.MustParseAddr("10.1.2.3")))
	require.Error(t, b.Join(netip.MustParseAddr("ff02::1")))
	require.NoError(t, b.Join(group))
	require.NoError(t, b.Join(group))
	require.NoError(t, second.Join(group))
	b.postRecv(t, 9)
	require.NoError(t, a.Post(send))
	all := b.got.takeAll()
	require.Len(t, all, 2)
	assert.Equal(t, Source{Addr: a.dev.Addr(), QP: a.Number(), Multicast: true}, all[0].From)

	b.postRecv(t, 9)
	require.NoError(t, a.Post(send))
	assert.Len(t, b.got.takeAll(), 1)
	assert.Equal(t, onlyDrop(dropNoRecv), takeDrops(b.dev), "the reason of the other end")
	require.NoError(t, b.Leave(group))
	second.Close()
	assert.Empty(t, b.wire.groups)
	assert.Empty(t, b.dev.groups)
	require.NoError(t, a.Join(group), "the sender receives its own message")
	a.postRecv(t, 9)
	require.NoError(t, a.Post(send))
	assert.Len(t, a.got.takeAll(), 1)

	// A unicast address does not receive messages to a group, nor the reverse.
	a.wire.injectPacket(netip.MustParseAddr(there), packet.Packet{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: defaultPKey, DestQP: packet.MulticastQP}})
	assert.Equal(t, onlyDrop(dropDestQP), takeDrops(a.dev))
}

// TestDevice checks that numbers differ, that closing ends everything, and that
// names are complete.
func TestDevice(t *testing.T) {
	w := newNetwork().newWire(here)
	d := Open(w, Config{})
	pd := d.NewProtectionDomain()
	var got completionLog
	u, err := pd.NewUC(UCConfig{Recv: &got})
	require.NoError(t, err)
	require.NoError(t, u.Init())
	require.NoError(t, u.PostRecv(Recv{ID: 1}))
	q, err := pd.NewUD(UDConfig{})
	require.NoError(t, err)
	assert.NotEqual(t, u.Number(), q.Number())
	_, err = pd.NewUC(UCConfig{Recvs: -1})
	require.Error(t, err)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	require.ErrorIs(t, u.Err(), rdma.ErrClosed)
	assert.Len(t, got.takeAll(), 1)
	_, err = pd.NewUD(UDConfig{})
	require.ErrorIs(t, err, rdma.ErrClosed)

	names := map[string]bool{}
	for d := range dropCauses {
		assert.NotEmpty(t, d.String())
		names[d.String()] = true
	}
	assert.Len(t, names, int(dropCauses))
	assert.Equal(t, 4096, maxPMTU(w))
	w.max = 1472
	assert.Equal(t, 1024, maxPMTU(w))
	w.max = 200
	assert.Zero(t, maxPMTU(w))
}

// TestUDNumber checks that a queue pair has the wanted number, or is not made.
func TestUDNumber(t *testing.T) {
	pd := openDevice(t, newNetwork().newWire(here), Config{}).NewProtectionDomain()
	q, err := pd.NewUD(UDConfig{Number: 0x4e4653})
	require.NoError(t, err)
	assert.EqualValues(t, 0x4e4653, q.Number())
	for _, n := range []uint32{1, 0x4e4653, packet.MulticastQP, 1 << 24} {
		_, err = pd.NewUD(UDConfig{Number: n})
		assert.Error(t, err, n)
	}
	q.Close()
	_, err = pd.NewUD(UDConfig{Number: 0x4e4653})
	assert.NoError(t, err, "it is free again")
}
