package iwarp

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/recorder"
)

// A capturedPacket is a packet in a capture.
type capturedPacket struct {
	time     time.Time
	from, to netip.AddrPort
	number   uint16 // IPv4's Identification
	seq, ack uint32
	syn      bool
	payload  []byte
}

// readCapture parses a capture with TCP over IPv4.
func readCapture(t testing.TB, file []byte) (all []capturedPacket) {
	t.Helper()
	le, be := binary.LittleEndian, binary.BigEndian
	require.GreaterOrEqual(t, len(file), pcap.HeaderLen)
	require.EqualValues(t, 0xa1b23c4d, le.Uint32(file))
	for b := file[pcap.HeaderLen:]; len(b) > 0; {
		n := int(le.Uint32(b[8:]))
		p := capturedPacket{time: time.Unix(int64(le.Uint32(b)), int64(le.Uint32(b[4:])))}
		ip := b[16+14 : 16+n]
		tcp := ip[20:]
		p.number = be.Uint16(ip[4:])
		p.from = netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[12:])), be.Uint16(tcp))
		p.to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[16:])), be.Uint16(tcp[2:]))
		p.seq, p.ack = be.Uint32(tcp[4:]), be.Uint32(tcp[8:])
		p.syn = tcp[13]&2 != 0
		p.payload = tcp[int(tcp[12]>>4)*4:]
		all = append(all, p)
		b = b[16+n:]
	}
	return all
}

// readRecord returns the packets in c's record after the TCP handshake. It
// checks that the addresses are right and that the sequence numbers have no
// gap.
func readRecord(t testing.TB, c *Conn) []capturedPacket {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, c.WriteRecord(&file))
	all := readCapture(t, file.Bytes())
	require.GreaterOrEqual(t, len(all), 3)
	local, remote := c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
	next := make(map[netip.AddrPort]uint32)
	last := time.Time{}
	for i, p := range all {
		assert.ElementsMatch(t, []netip.AddrPort{local, remote}, []netip.AddrPort{p.from, p.to})
		assert.Equal(t, i < 2, p.syn)
		assert.Equal(t, next[p.from], p.seq, "packet %d", i)
		if i > 0 {
			assert.Equal(t, next[p.to], p.ack, "packet %d", i)
		}
		next[p.from] = p.seq + uint32(len(p.payload))
		if p.syn {
			next[p.from]++
		}
		assert.False(t, p.time.Before(last))
		last = p.time
	}
	return all[3:]
}

// TestRecord checks that each end's record contains both directions' traffic:
// the start-up frames, and each FPDU as one packet, regardless of the system
// calls that carried it.
func TestRecord(t *testing.T) {
	for name, crc := range map[string]mpa.CRC{"CRC on": mpa.CRCOn, "CRC off": mpa.CRCOff} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			o := pairOptions{initiator: Config{CRC: crc, Record: 1 << 20}, responder: Config{CRC: crc, Record: 1 << 20}}
			a, b := connectPair(t, o)
			sendFirst(t, a, b)
			mem, done := patternBytes(150_000), make(completionWaiter, 2)
			r, err := a.Register(make([]byte, len(mem)), rdma.RemoteWrite|rdma.RemoteRead)
			require.NoError(t, err)
			require.NoError(t, b.Post(
				rdma.WR{Op: rdma.OpWrite, Data: [][]byte{mem[:77_777], mem[77_777:]}, Remote: rdma.Remote{STag: r.STag()}},
				rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 100)}, Remote: rdma.Remote{STag: r.STag()}, Done: done},
				rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("last")}, Done: done},
			))
			require.NoError(t, done.wait(t).Err)
			require.NoError(t, done.wait(t).Err)
			assert.Equal(t, "last", string(a.inbox.nextMessage(t)))
			require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend, Done: done}))
			require.NoError(t, done.wait(t).Err) // so everything before it is recorded
			b.inbox.nextMessage(t)
			for _, e := range []endpoint{a, b} {
				packets := readRecord(t, e.Conn)
				request, err := mpa.ParseRequest(packets[0].payload)
				require.NoError(t, err)
				assert.Equal(t, b.Peer(), request)
				reply, err := mpa.ParseReply(packets[1].payload)
				require.NoError(t, err)
				assert.Equal(t, a.Peer(), reply)
				assert.Equal(t, a.LocalAddr().String(), packets[0].from.String())
				var written []byte
				ops := make(map[rdmap.Opcode]int)
				for _, p := range packets[2:] {
					op, payload := parseOpcode(t, crc == mpa.CRCOn, p.payload)
					if op == rdmap.OpWrite {
						written = append(written, payload...)
						continue
					}
					ops[op]++
				}
				assert.Equal(t, mem, written)
				assert.Equal(t, map[rdmap.Opcode]int{rdmap.OpSend: 3, rdmap.OpReadRequest: 1, rdmap.OpReadResponse: 1}, ops)
			}
			r.Deregister()
		})
	}
}

// parseOpcode parses one FPDU.
func parseOpcode(t testing.TB, crc bool, b []byte) (rdmap.Opcode, []byte) {
	t.Helper()
	n := int(binary.BigEndian.Uint16(b))
	require.Equal(t, frameFPDU(crc, b[mpa.LengthLen:][:n]), b)
	segment := b[mpa.LengthLen:][:n]
	if ddp.IsTagged(segment[0]) {
		h, payload, err := ddp.ParseTagged(segment)
		require.NoError(t, err)
		op, err := rdmap.CheckTagged(h)
		require.NoError(t, err)
		return op, payload
	}
	h, payload, err := ddp.ParseUntagged(segment)
	require.NoError(t, err)
	op, err := rdmap.CheckUntagged(h)
	require.NoError(t, err)
	return op, payload
}

// TestRecordDrops checks that a full ring drops the oldest packets but keeps
// the start-up frames, and that the packet numbers show how many packets are
// missing.
func TestRecordDrops(t *testing.T) {
	checkLeaks(t)
	c := Config{CRC: mpa.CRCOff, Record: 1}
	a, b := connectPair(t, pairOptions{initiator: c, responder: c, recvs: 1000})
	const count, size = 900, 1000
	sent := make(completionWaiter, count)
	for i := range count {
		message := binary.BigEndian.AppendUint32(make([]byte, 0, size), uint32(i))
		require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{message[:size]}, Done: sent}))
		b.inbox.nextMessage(t)
	}
	for range count {
		require.NoError(t, sent.wait(t).Err)
	}
	for _, e := range []endpoint{a, b} {
		packets := readRecord(t, e.Conn)
		_, err := mpa.ParseRequest(packets[0].payload)
		require.NoError(t, err)
		_, err = mpa.ParseReply(packets[1].payload)
		require.NoError(t, err)
		packets = packets[2:]
		kept := len(packets)
		assert.Greater(t, kept, 128<<10/(size+3*13+50))
		assert.Less(t, kept, 128<<10/size+1)
		for i, p := range packets {
			_, message := parseOpcode(t, false, p.payload)
			n := count - kept + i
			assert.EqualValues(t, n, binary.BigEndian.Uint32(message))
			assert.EqualValues(t, 3+n, p.number) // after SYN, ACK and Request
		}
	}
}

// TestRecordOfFault checks that a record contains the faulty FPDU, this end's
// Terminate, and an incomplete FPDU.
func TestRecordOfFault(t *testing.T) {
	checkLeaks(t)
	record := func(c *Conn) { c.sock.record = recorder.New(c, 1, pcap.Server) }
	e, p := connectRaw(t, rawOptions{crc: true, recvs: 1, before: record})
	bad := p.frameFPDU(sendSeg(true, 1, 0, []byte("first")))
	p.writeBytes(bad)
	e.inbox.nextMessage(t)
	bad = p.frameFPDU(sendSeg(true, 2, 0, []byte("second")))
	bad[20] ^= 1
	p.writeBytes(bad, []byte{0, 9, 1})
	term := p.readTerminate()
	e.inbox.closeError(t)
	packets := readRecord(t, e.Conn)
	require.Len(t, packets, 4)
	assert.Equal(t, bad, packets[1].payload)
	op, body := parseOpcode(t, true, packets[2].payload)
	assert.Equal(t, rdmap.OpTerminate, op)
	again, err := rdmap.ParseTerminate(body)
	require.NoError(t, err)
	assert.Equal(t, term, again)
	assert.Equal(t, []byte{0, 9, 1}, packets[3].payload)
}

// TestRecordOfMarkers checks that the record contains no Markers, regardless of
// dropped packets, and that the recorded start-up frames do not request
// Markers.
func TestRecordOfMarkers(t *testing.T) {
	checkLeaks(t)
	for _, record := range []int{1, 1 << 20} {
		for _, both := range []bool{true, false} {
			a, b := connectPair(t, pairOptions{
				initiator: Config{Markers: both, Record: record}, responder: Config{Markers: true, Record: record}, recvs: 1000,
			})
			const count = 300
			for i := range count {
				require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(900 + i)}}))
				b.inbox.nextMessage(t)
			}
			for _, e := range []endpoint{a, b} {
				packets := readRecord(t, e.Conn)
				request, err := mpa.ParseRequest(packets[0].payload)
				require.NoError(t, err)
				reply, err := mpa.ParseReply(packets[1].payload)
				require.NoError(t, err)
				assert.False(t, request.Markers || reply.Markers)
				packets = packets[2:]
				assert.Equal(t, record > count*2000, len(packets) == count)
				for i, p := range packets {
					op, payload := parseOpcode(t, true, p.payload)
					assert.Equal(t, rdmap.OpSend, op)
					assert.Equal(t, patternBytes(900+count-len(packets)+i), payload)
				}
			}
		}
	}
}

// TestRecordWhere checks that WriteRecord fails for a connection without a
// record, and works for a connection over a pipe.
func TestRecordWhere(t *testing.T) {
	checkLeaks(t)
	a, _ := connectPair(t, pairOptions{})
	require.ErrorIs(t, a.WriteRecord(io.Discard), errNoRecord)
	piped, _ := connectPair(t, pairOptions{pipe: true, initiator: Config{Record: 1}})
	var file bytes.Buffer
	require.NoError(t, piped.WriteRecord(&file))
	packets := readCapture(t, file.Bytes())
	require.Len(t, packets, 5)
	assert.Equal(t, "127.0.0.1:1", packets[0].from.String())
}

// TestEnded checks that a connection's creator learns that it ended before the
// upper layer does, while the record is available, and that the connection is
// listed as running until then.
func TestEnded(t *testing.T) {
	checkLeaks(t)
	type end struct {
		c     *Conn
		cause error
	}
	ends := make(chan end, 2)
	var a, b endpoint
	inbox := func(c *Conn) *inboxHandler {
		if c == b.Conn {
			return b.inbox
		}
		return a.inbox
	}
	ended := func(c *Conn, cause error) {
		assert.Empty(t, inbox(c).closed)
		assert.False(t, slices.Contains(testDevice.Conns(), c))
		assert.NoError(t, c.WriteRecord(io.Discard))
		ends <- end{c, cause}
	}
	var before sync.Mutex
	before.Lock() // until a and b are known
	c := Config{Record: 1, Ended: func(c *Conn, cause error) {
		before.Lock()
		defer before.Unlock()
		ended(c, cause)
	}}
	a, b = connectPair(t, pairOptions{initiator: c, responder: c})
	for _, e := range []endpoint{a, b} {
		assert.True(t, slices.Contains(testDevice.Conns(), e.Conn))
	}
	before.Unlock()
	require.NoError(t, a.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{1}}, Remote: rdma.Remote{STag: 1}}))
	causes := make(map[*Conn]error)
	for range 2 {
		e := <-ends
		causes[e.c] = e.cause
		assert.Equal(t, e.cause, inbox(e.c).closeError(t))
	}
	requireFault(t, causes[a.Conn], true, rdmap.Error{Layer: rdmap.LayerDDP, Type: 1, Code: 0})
	requireFault(t, causes[b.Conn], false, rdmap.Error{Layer: rdmap.LayerDDP, Type: 1, Code: 0})
}
