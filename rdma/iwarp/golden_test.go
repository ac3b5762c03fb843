package iwarp

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestGoldenWorkRequests checks byte by byte work requests' wire form
// (R5040-4.1-1 to -9, R5040-4.2-1, R5041-4.1-10, R5044-4.1-1 to -3,
// R5044-C.1-1).
func TestGoldenWorkRequests(t *testing.T) {
	golden := func(file string) func(testing.TB) []byte {
		return func(t testing.TB) []byte { return wiretest.Hex(t, file) }
	}
	framed := func(file string) func(testing.TB) []byte {
		return func(t testing.TB) []byte { return frameFPDU(true, wiretest.Hex(t, file)) }
	}
	for name, tt := range map[string]struct {
		wr   rdma.WR
		want func(testing.TB) []byte
	}{
		"Send":           {rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("hel"), nil, []byte("lo")}}, golden("mpa/testdata/fpdu-send-pad.hex")},
		"Write":          {rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{1, 2, 3}, {4}}, Remote: rdma.Remote{STag: 0x12345678, TO: 0x1000}}, golden("mpa/testdata/fpdu-write.hex")},
		"empty Write":    {rdma.WR{Op: rdma.OpWrite}, golden("mpa/testdata/fpdu-write-empty.hex")}, // R5040-5.1-9
		"Send, MSN 5":    {rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("x")}, Invalidate: 0xaabbccdd, WithInvalidate: true}, framed("rdmap/testdata/send-invalidate.hex")},
		"Read":           {rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 256)}, Remote: rdma.Remote{STag: 0x22222222, TO: 0x3000}}, framed("testdata/read-request.hex")},
		"no Invalidate":  {rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("hello")}, Invalidate: 0xaabbccdd}, golden("mpa/testdata/fpdu-send-pad.hex")}, // R5040-4.1-11
		"Send in pieces": {rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("h"), []byte("e"), []byte("l"), []byte("l"), []byte("o")}}, golden("mpa/testdata/fpdu-send-pad.hex")},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true, crc: true, before: func(c *Conn) {
				c.tx.sinkSTag = 0x11111111
				if name == "Send, MSN 5" {
					c.tx.sends = 4
				}
			}})
			require.NoError(t, e.Post(tt.wr))
			want := tt.want(t)
			assert.Equal(t, want, p.readBytes(len(want)))
			require.NoError(t, p.nc.Close())
			e.inbox.closeError(t)
		})
	}
}

// TestGoldenAnswers checks the wire form for a Read Response and Terminates.
func TestGoldenAnswers(t *testing.T) {
	badCRC := frameFPDU(true, writeSeg(true, 0, 0, nil))
	badCRC[19]++
	for name, tt := range map[string]struct {
		bytes []byte
		want  string
	}{
		"unexpected opcode": {frameFPDU(true, wiretest.Bytes(t, "41 4c 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 00")), "rdmap/testdata/terminate-opcode.hex"},
		"CRC error":         {badCRC, "rdmap/testdata/terminate-crc.hex"},
		"Write":             {frameFPDU(true, wiretest.Bytes(t, "c1 40 00 00 00 00 00 00 00 00 00 00 00 00 ff")), "testdata/terminate-write.hex"},
		"Read Request":      {frameFPDU(true, wiretest.Hex(t, "rdmap/testdata/read-request.hex")), "testdata/terminate-read.hex"},
		"empty Read":        {frameFPDU(true, wiretest.Hex(t, "testdata/read-request-empty.hex")), "testdata/read-response-empty.hex"},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true, crc: true})
			p.writeBytes(tt.bytes)
			want := frameFPDU(true, wiretest.Hex(t, tt.want))
			assert.Equal(t, want, p.readBytes(len(want)))
			require.NoError(t, p.nc.Close())
			e.inbox.closeError(t)
		})
	}
}

// TestGoldenSegments checks that a message is cut into segments as RFC 5041,
// Section 5.2, shows (R5041-5.2-1, R5041-5.2-5, R5041-5.2-7, R5041-4.1-3 to -6,
// R5041-4.3-8).
func TestGoldenSegments(t *testing.T) {
	checkLeaks(t)
	const mulpdu = 1500
	e, p := connectRaw(t, rawOptions{initiator: true, before: func(c *Conn) { c.mulpdu = mulpdu }})
	data := patternBytes(2048)
	require.NoError(t, e.Post(
		rdma.WR{Op: rdma.OpSend, Data: [][]byte{data}, Solicited: true},
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{data[:1000], data[1000:]}, Remote: rdma.Remote{STag: 9, TO: 16384}},
	))
	se := func(last bool, mo uint32, b []byte) []byte {
		return append(rdmap.AppendUntagged(nil, rdmap.OpSendSE, last, 0, 1, mo), b...)
	}
	for _, want := range [][]byte{
		se(false, 0, data[:1482]),
		se(true, 1482, data[1482:]),
		writeSeg(false, 9, 16384, data[:1486]),
		writeSeg(true, 9, 17870, data[1486:]),
	} {
		assert.Equal(t, want, p.readSegment())
	}
}

// TestMSNGoesRound checks that MSNs wrap (R5041-4.3-5, R5041-4.3-7).
func TestMSNGoesRound(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{initiator: true, before: func(c *Conn) {
		c.tx.sends, c.tx.requests = math.MaxUint32-2, math.MaxUint32-2
	}})
	for _, msn := range []uint32{math.MaxUint32 - 1, math.MaxUint32, 0, 1} {
		done := make(completionWaiter, 2)
		require.NoError(t, e.Post(
			rdma.WR{Op: rdma.OpSend, Done: done},
			rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 1)}, Done: done},
		))
		assert.Equal(t, sendSeg(true, msn, 0, nil), p.readSegment())
		segment := p.readSegment()
		h, _, err := ddp.ParseUntagged(segment)
		require.NoError(t, err)
		assert.Equal(t, msn, h.MSN)
		req, err := rdmap.ParseReadRequest(segment[ddp.UntaggedLen:])
		require.NoError(t, err)
		p.sendSegments(responseSeg(true, req.SinkSTag, req.SinkTO, []byte{1}))
		done.wait(t)
		require.NoError(t, done.wait(t).Err)
	}
}

// TestSystemCalls checks that requests posted together leave with one system
// call, including headers and padding.
func TestSystemCalls(t *testing.T) {
	for _, crc := range []bool{false, true} {
		checkLeaks(t)
		calls := 0
		e, p := connectRaw(t, rawOptions{initiator: true, crc: crc, before: func(c *Conn) {
			send := c.sock.tcp.wr.call
			c.sock.tcp.wr.call = func(flags int) (int, unix.Errno) { calls++; return send(flags) }
		}})
		big, small := patternBytes(48<<10), []byte{1}
		write := rdma.WR{Op: rdma.OpWrite, Data: [][]byte{big, small}}
		for _, wrs := range [][]rdma.WR{
			{{Op: rdma.OpSend, Data: [][]byte{small}}},
			{{Op: rdma.OpSend, Data: [][]byte{small, small, small}}},
			{write, write, {Op: rdma.OpSend, Data: [][]byte{small}}},
			{write, {Op: rdma.OpWrite}, write, {Op: rdma.OpRead, Data: [][]byte{nil}}, {Op: rdma.OpSend}},
		} {
			done := make(completionWaiter, 1)
			wrs = append(wrs, rdma.WR{Op: rdma.OpWrite})
			wrs[0].Done = done
			calls = 0
			require.NoError(t, e.Post(wrs...)) // written by this goroutine: the socket has room
			require.NoError(t, done.wait(t).Err)
			assert.Equal(t, 1, calls, "%d work requests", len(wrs))
			for range wrs {
				p.readSegment()
			}
		}
	}
}
