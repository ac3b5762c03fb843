package roce

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

const qkey = 0x11111111

// An end is a UD queue pair in RTS.
type end struct {
	*UD
	dev  *Device
	wire *memWire
	got  log
}

func newEnd(t *testing.T, n *network, addr string, cfg Config) *end {
	e := &end{wire: n.wire(addr)}
	e.wire.log = true
	e.dev = device(t, e.wire, cfg)
	var err error
	e.UD, err = e.dev.NewProtectionDomain().NewUD(UDConfig{Recv: &e.got})
	require.NoError(t, err)
	require.NoError(t, e.Start(qkey))
	return e
}

// at returns the end's address.
func (e *end) at() Destination {
	return Destination{Address: Address{Addr: e.dev.Addr()}, QP: e.Number(), QKey: qkey}
}

func (e *end) room(t *testing.T, n int) []byte {
	mem := make([]byte, GRHLen+n)
	require.NoError(t, e.PostRecv(Recv{Data: mem, ID: 5}))
	return mem
}

// causes returns the device's drops since the last call.
func causes(d *Device) map[Drop]uint64 {
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
	a, b, c := newEnd(t, n, here, Config{}), newEnd(t, n, there, Config{}), newEnd(t, n, "10.0.0.3", Config{})
	for i, size := range []int{0, 1, 999, a.dev.MaxPMTU()} {
		for _, to := range []*end{b, c} {
			mem := to.room(t, size)
			var done log
			wr := WR{Op: rdma.OpSend, Data: [][]byte{numbered(size)}, To: to.at(), Done: &done, ID: 3, Solicited: true, Immediate: 8, WithImmediate: i%2 == 1}
			require.NoError(t, a.Post(wr))
			assert.Equal(t, []Completion{{QP: a.Number(), ID: 3}}, done.take()) // RIB-P15
			want := Completion{
				QP: to.Number(), ID: 5, Received: true, Bytes: GRHLen + size, Solicited: true,
				From: Source{Addr: a.dev.Addr(), QP: a.Number()}, // RIB-P13
			}
			if wr.WithImmediate {
				want.Immediate, want.WithImmediate = 8, true
			}
			assert.Equal(t, []Completion{want}, to.got.take()) // RIB-P17
			assert.Equal(t, numbered(size), mem[GRHLen:])
			from, err := packet.SourceOf(mem)
			require.NoError(t, err)
			assert.Equal(t, a.dev.Addr(), addrOf(from))
		}
	}
	assert.Len(t, a.wire.sent, 8) // RIB-C9-200
	for psn, p := range a.wire.packets(t) {
		assert.EqualValues(t, psn, p.PSN) // RIB-C9-204
		assert.Equal(t, a.Number(), p.DETH.SrcQP)
	}

	require.Error(t, a.Post(WR{Op: rdma.OpSend, Data: [][]byte{numbered(a.dev.MaxPMTU() + 1)}, To: b.at()})) // RIB-C9-200
	require.Error(t, a.Post(WR{Op: rdma.OpWrite, To: b.at()}))
	require.Error(t, a.Post(WR{Op: rdma.OpSend}))
	bad := b.at()
	bad.QP = packet.MulticastQP
	require.Error(t, a.Post(WR{Op: rdma.OpSend, To: bad}))
	bad.QP = 1 << 24
	require.Error(t, a.Post(WR{Op: rdma.OpSend, To: bad}))
	assert.Empty(t, a.wire.sent)

	// PSNs are ignored, and wrap around.
	a.Reset()
	require.NoError(t, a.Init(qkey))
	require.NoError(t, a.ReadyToReceive())
	require.ErrorIs(t, a.Post(WR{Op: rdma.OpSend, To: b.at()}), errState)
	require.NoError(t, a.ReadyToSend(packet.Mask24)) // RIB-C9-204
	b.room(t, 0)
	b.room(t, 0)
	require.NoError(t, a.Post(WR{Op: rdma.OpSend, To: b.at()}, WR{Op: rdma.OpSend, To: b.at()}))
	ps := a.wire.packets(t)
	assert.EqualValues(t, packet.Mask24, ps[0].PSN)
	assert.Zero(t, ps[1].PSN)
	assert.Len(t, b.got.take(), 2) // RIB-o9-144
}

// TestUDNoWay checks that a datagram that cannot leave, or whose memory is
// gone, fails alone.
func TestUDNoWay(t *testing.T) {
	n := newNetwork()
	a, b := newEnd(t, n, here, Config{}), newEnd(t, n, there, Config{})
	nowhere := errors.New("no way")
	far := b.at()
	far.Addr = netip.MustParseAddr("10.9.9.9")
	a.wire.refuse[far.Addr] = nowhere
	var done log
	wrs := make([]WR, 40)
	for i := range wrs {
		b.room(t, 4)
		wrs[i] = WR{Op: rdma.OpSend, Data: [][]byte{numbered(4)}, To: b.at(), Done: &done, ID: uint64(i)}
	}
	wrs[3].To, wrs[20].To = far, far
	wrs[30].Data = [][]byte{cutShort(t)[:8]}
	require.NoError(t, a.Post(wrs...))
	for i, c := range done.take() {
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
	assert.Len(t, b.got.take(), 37)
	for psn, p := range a.wire.packets(t) {
		assert.EqualValues(t, psn, p.PSN, "an unsent message uses no number") // RIB-C9-204
	}
	assert.Equal(t, RTS, a.State())
}

// TestUDDrops checks the datagrams that a receive queue of UD drops; none uses
// up a receive.
func TestUDDrops(t *testing.T) { // RIB-C9-202
	b := newEnd(t, newNetwork(), there, Config{})
	from := netip.MustParseAddr(here)
	good := packet.Packet{
		BTH:     packet.BTH{Opcode: packet.UDSendOnly, PKey: defaultPKey, DestQP: b.Number(), PSN: 77},
		DETH:    packet.DETH{QKey: qkey, SrcQP: 9},
		Payload: numbered(100),
	}
	b.wire.put(from, good)
	assert.Equal(t, only(DropNoRecv), causes(b.dev)) // RIB-C9-207
	b.room(t, 99)
	for _, tt := range []struct {
		cause  Drop
		change func(*packet.Packet)
	}{
		{DropVersion, func(p *packet.Packet) { p.Version = 2 }},
		{DropDestQP, func(p *packet.Packet) { p.DestQP = 1 }},
		{DropService, func(p *packet.Packet) { p.Opcode = packet.UCWriteOnly }},
		{DropService, func(p *packet.Packet) { p.Opcode = 0x04 }},
		{DropPKey, func(p *packet.Packet) { p.PKey = 3 }},
		{DropQKey, func(p *packet.Packet) { p.DETH.QKey++ }},
		{DropOpcode, func(p *packet.Packet) { p.Opcode = 0x6a }}, // RIB-C9-206: an RDMA WRITE, if there were one
		{DropOpcode, func(p *packet.Packet) { p.Opcode = 0x7f }}, // RIB-C9-206
		{DropRoom, func(*packet.Packet) {}},                      // RIB-C9-205
		{DropPayload, func(p *packet.Packet) { p.Payload = numbered(4100) }},
		{DropLength, func(p *packet.Packet) { p.Pad, p.Payload = 0, numbered(3) }},
	} {
		p := good
		tt.change(&p)
		b.wire.put(from, p)
		assert.Equal(t, only(tt.cause), causes(b.dev), "%+v", p.BTH) // RIB-C9-165, RIB-C9-205
	}
	assert.Empty(t, b.got.take())
	assert.Equal(t, 1, b.recvs.n) // RIB-P17
	good.Payload, good.Pad = numbered(99), 1
	b.wire.put(from, good)
	assert.Len(t, b.got.take(), 1)

	require.NoError(t, b.PostRecv(Recv{Data: cutShort(t)}, Recv{ID: 2}))
	b.wire.put(from, good)
	all := b.got.take()
	require.ErrorIs(t, all[0].Err, ErrFault)
	require.ErrorIs(t, all[1].Err, rdma.ErrFlushed)
	b.wire.put(from, good)
	assert.Equal(t, only(DropState), causes(b.dev))
}

// TestQKeys checks that a controlled Q_Key in a work request means the queue
// pair's own, and that only privileged queue pairs have a controlled one.
func TestQKeys(t *testing.T) {
	n := newNetwork()
	a, b := newEnd(t, n, here, Config{Controlled: true}), newEnd(t, n, there, Config{})
	to := b.at()
	to.QKey = 0x80000000
	b.room(t, 0)
	require.NoError(t, a.Post(WR{Op: rdma.OpSend, To: to}))
	assert.Len(t, b.got.take(), 1, "both have the same Q_Key")
	assert.EqualValues(t, qkey, a.wire.packets(t)[0].DETH.QKey)

	a.Reset()
	require.NoError(t, a.Start(0x80010000))
	require.NoError(t, a.Post(WR{Op: rdma.OpSend, To: to}))
	assert.EqualValues(t, 0x80010000, a.wire.packets(t)[0].DETH.QKey)
	assert.Equal(t, only(DropQKey), causes(b.dev))
	b.Reset()
	require.Error(t, b.Start(0x80010000))
}

// TestMulticast checks that all members get messages to the group, each in its
// own receive, and that others do not.
func TestMulticast(t *testing.T) {
	n := newNetwork()
	group := netip.MustParseAddr("239.1.2.3")
	a, b := newEnd(t, n, here, Config{}), newEnd(t, n, there, Config{})
	second, err := b.dev.NewProtectionDomain().NewUD(UDConfig{Recv: &b.got})
	require.NoError(t, err)
	require.NoError(t, second.Start(qkey))
	require.NoError(t, second.PostRecv(Recv{Data: make([]byte, 100)}))
	to := Destination{Address: Address{Addr: group}, QP: packet.MulticastQP, QKey: qkey}
	send := WR{Op: rdma.OpSend, Data: [][]byte{numbered(9)}, To: to}

	require.Error(t, b.Join(netip.MustParseAddr("10.1.2.3")))
	require.Error(t, b.Join(netip.MustParseAddr("ff02::1")))
	require.NoError(t, b.Join(group))
	require.NoError(t, b.Join(group))
	require.NoError(t, second.Join(group))
	b.room(t, 9)
	require.NoError(t, a.Post(send))
	all := b.got.take()
	require.Len(t, all, 2)
	assert.Equal(t, Source{Addr: a.dev.Addr(), QP: a.Number(), Multicast: true}, all[0].From)

	b.room(t, 9)
	require.NoError(t, a.Post(send))
	assert.Len(t, b.got.take(), 1)
	assert.Equal(t, only(DropNoRecv), causes(b.dev), "the reason of the other end")
	require.NoError(t, b.Leave(group))
	second.Close()
	assert.Empty(t, b.wire.groups)
	assert.Empty(t, b.dev.groups)
	require.NoError(t, a.Join(group), "the sender receives its own message")
	a.room(t, 9)
	require.NoError(t, a.Post(send))
	assert.Len(t, a.got.take(), 1)

	// A unicast address does not receive messages to a group, nor the reverse.
	a.wire.put(netip.MustParseAddr(there), packet.Packet{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: defaultPKey, DestQP: packet.MulticastQP}})
	assert.Equal(t, only(DropDestQP), causes(a.dev))
}

// TestDevice checks that numbers differ, that closing ends everything, and that
// names are complete.
func TestDevice(t *testing.T) {
	w := newNetwork().wire(here)
	d := Open(w, Config{})
	pd := d.NewProtectionDomain()
	var got log
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
	assert.Len(t, got.take(), 1)
	_, err = pd.NewUD(UDConfig{})
	require.ErrorIs(t, err, rdma.ErrClosed)

	names := map[string]bool{}
	for d := range Drops {
		assert.NotEmpty(t, d.String())
		names[d.String()] = true
	}
	assert.Len(t, names, int(Drops))
	assert.Equal(t, 4096, MaxPMTU(w))
	w.max = 1472
	assert.Equal(t, 1024, MaxPMTU(w))
	w.max = 200
	assert.Zero(t, MaxPMTU(w))
}

// TestUDNumber checks that a queue pair has the wanted number, or is not made.
func TestUDNumber(t *testing.T) {
	pd := device(t, newNetwork().wire(here), Config{}).NewProtectionDomain()
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
