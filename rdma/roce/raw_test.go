package roce

import (
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A memLink returns the packets that are sent on it.
type memLink struct {
	serving chan func([]byte)
	deliver func([]byte)
	stop    chan struct{}
	once    sync.Once
	sent    [][]byte
}

func newMemLink() *memLink {
	return &memLink{serving: make(chan func([]byte), 1), stop: make(chan struct{})}
}

func (l *memLink) Send(b []byte) error {
	l.sent = append(l.sent, b)
	l.injectPacket(b)
	return nil
}

func (l *memLink) injectPacket(b []byte) {
	if l.deliver == nil {
		l.deliver = <-l.serving
	}
	l.deliver(b)
}

func (l *memLink) Serve(deliver func([]byte)) error {
	l.serving <- deliver
	<-l.stop
	return rdma.ErrClosed
}

func (l *memLink) Close() error {
	l.once.Do(func() { close(l.stop) })
	return nil
}

// TestRawQueuePairs checks that each queue pair gets its service's datagrams.
func TestRawQueuePairs(t *testing.T) {
	l := newMemLink()
	p := OpenRaw(l)
	var gotE, got6 completionLog
	ether, err := p.NewRaw(packet.RawEthertype, 0x88b5, 0, &gotE) // RIB-o9-146
	require.NoError(t, err)
	ipv6, err := p.NewRaw(packet.RawIPv6, 59, 2, &got6) // RIB-o9-147
	require.NoError(t, err)
	for _, bad := range []struct {
		kind  packet.LNH
		what  uint16
		recvs int
	}{
		{packet.RawEthertype, 0x88b5, 0},
		{packet.RawIPv6, packet.NextHeaderIBA, 0}, // RIB-C9-208
		{packet.RawIPv6, 256, 0},
		{packet.Local, 1, 0},
		{packet.RawIPv6, 1, -1},
	} {
		_, err := p.NewRaw(bad.kind, bad.what, bad.recvs, &gotE)
		require.ErrorIs(t, err, errRawService, "%+v", bad)
	}

	mem := make([]byte, packet.MaxRaw)
	require.NoError(t, ether.PostRecv(Recv{Data: mem, ID: 1}))
	require.NoError(t, ether.Send(packet.Raw{Payload: patternBytes(packet.MaxRaw - packet.LRHLen - packet.RWHLen)})) // RIB-o9-148
	assert.Equal(t, []Completion{{ID: 1, Received: true, Bytes: packet.MaxRaw}}, gotE.takeAll())
	require.NoError(t, ether.Send(packet.Raw{Payload: patternBytes(5)}))
	require.NoError(t, ipv6.PostRecv(Recv{Data: mem[:59], ID: 2}, Recv{Data: mem, ID: 3}))
	require.Error(t, ipv6.PostRecv(Recv{}), "no space")
	require.NoError(t, ipv6.Send(packet.Raw{IPv6: packet.GRH{HopLimit: 4}, Payload: patternBytes(10)}))
	require.NoError(t, ipv6.Send(packet.Raw{Payload: patternBytes(13)}))
	got := got6.takeAll()
	require.Empty(t, got, "60 bytes do not fit, and so the second waits too")
	assert.EqualValues(t, 1, p.Stats().Dropped[dropNoRecv])
	assert.EqualValues(t, 2, p.Stats().Dropped[dropTooLong])

	// Invalid packets are counted, and not delivered.
	l.injectPacket(l.sent[0][:3])
	bad := append([]byte(nil), l.sent[1]...)
	bad[9] ^= 1
	l.injectPacket(bad)
	sealed := func(r packet.Raw, at int, v byte) {
		b, err := r.AppendTo(nil)
		require.NoError(t, err)
		b = b[:len(b)-packet.VCRCLen]
		b[at] = v
		crc := packet.VCRC(b)
		l.injectPacket(append(b, byte(crc), byte(crc>>8)))
	}
	sealed(packet.Raw{LRH: packet.LRH{Next: packet.RawIPv6}}, packet.LRHLen+6, packet.NextHeaderIBA) // RIB-C9-208
	sealed(packet.Raw{}, 1, byte(packet.Local))
	sealed(packet.Raw{}, 0, 0)
	s := p.Stats()
	for _, d := range []Drop{dropLength, dropVCRC, dropTransport, dropForm, dropDestQP} {
		assert.EqualValues(t, 1, s.Dropped[d], "%v", d)
	}

	ipv6.Close()
	assert.Len(t, got6.takeAll(), 2, "flushed")
	require.NoError(t, ether.PostRecv(Recv{Data: mem}))
	require.NoError(t, p.Close())
	assert.Equal(t, rdma.ErrFlushed, gotE.takeAll()[0].Err)
	_, err = p.NewRaw(packet.RawIPv6, 1, 0, &got6)
	require.ErrorIs(t, err, rdma.ErrClosed)
}

// TestPacketLink sends a raw datagram over Ethernet's loopback, whose packets
// have no station address.
func TestPacketLink(t *testing.T) {
	station := net.HardwareAddr{0, 0, 0, 0, 0, 0}
	a, err := OpenPacketLink("lo", station)
	if os.Getuid() != 0 {
		require.ErrorIs(t, err, unix.EPERM)
		return
	}
	require.NoError(t, err)
	b, err := OpenPacketLink("lo", station)
	require.NoError(t, err)
	_, err = OpenPacketLink("lo", station[:5])
	require.Error(t, err)
	from, to := OpenRaw(a), OpenRaw(b)
	cq := NewCompletionQueue(2)
	service := uint16(time.Now().UnixNano()) // other tests may run concurrently
	source, err := from.NewRaw(packet.RawEthertype, service, 0, cq)
	require.NoError(t, err)
	sink, err := to.NewRaw(packet.RawEthertype, service, 0, cq)
	require.NoError(t, err)
	mem := make([]byte, packet.MaxRaw)
	require.NoError(t, sink.PostRecv(Recv{Data: mem}))
	require.NoError(t, source.Send(packet.Raw{Payload: []byte("raw!")}))
	c, err := cq.Wait(waitContext(t))
	require.NoError(t, err)
	assert.Equal(t, "raw!", string(mem[packet.LRHLen+packet.RWHLen:c.Bytes]))
	require.NoError(t, from.Close())
	require.NoError(t, to.Close())
}
