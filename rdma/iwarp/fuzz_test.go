package iwarp

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa/mpatest"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// The STags in seeds, which represent the drawn STags.
const (
	seedRegion = 0x53544147
	seedSink   = 0x53494e4b
)

// FuzzConn sends bytes to a connection in full operation. For any bytes, the
// connection must end soon after them, release all its resources, and touch no
// memory but the region's. Its output must be FPDUs, and a Terminate must be
// the last of them.
func FuzzConn(f *testing.F) {
	f.Add(byte(0), recordSession(rawOptions{}, seedRegion).bytes)
	f.Add(byte(1), recordSession(rawOptions{crc: true}, seedRegion).bytes)
	f.Add(byte(4), recordSession(rawOptions{markers: true}, seedRegion).bytes)
	f.Add(byte(8|4|1), recordSession(rawOptions{markers: true, crc: true}, seedRegion).bytes)
	f.Add(byte(8), recordSession(rawOptions{}, seedRegion).bytes)
	for _, s := range append(faultCases(), extensionFaultCases(seedRegion)...) {
		var data []byte
		for _, segment := range s.segments(testRegions{rw: seedRegion, ro: seedRegion, wo: seedRegion, foreign: 1, deregistered: 2}) {
			data = append(data, frameFPDU(false, segment)...)
		}
		f.Add(byte(0), data)
	}
	f.Add(byte(2), append(frameFPDU(false, responseSeg(false, seedSink, 1<<32, []byte("abc"))), frameFPDU(false, responseSeg(true, seedSink, 1<<32+3, []byte("defgh")))...))
	f.Add(byte(2), slices.Concat(
		frameFPDU(false, responseSeg(true, seedSink, 1<<32, []byte("abcdefgh"))),
		frameFPDU(false, immediateSeg(1, true, make([]byte, 8)...)),
		frameFPDU(false, atomicResponseSeg(1, rdmap.AtomicResponse{ID: 1, Original: 5})),
	))
	f.Add(byte(2), frameFPDU(false, wiretest.Hex(f, "rdmap/testdata/terminate-opcode.hex")))
	f.Add(byte(3), frameFPDU(true, wiretest.Hex(f, "rdmap/testdata/terminate-crc.hex")))
	for _, file := range []string{"fpdu-siw-send", "fpdu-siw-write", "fpdu-siw-send-invalidate"} {
		f.Add(byte(1), wiretest.Hex(f, "mpa/testdata/"+file+".hex"))
	}

	f.Fuzz(func(t *testing.T, mode byte, data []byte) {
		crc, initiator := mode&1 != 0, mode&2 != 0
		params := mpa.Params{CRC: crc, RecvMarkers: mode&4 != 0, SendMarkers: mode&8 != 0, IRD: 2, ORD: 2}
		out := buf.Default.Out()
		a, b := net.Pipe()
		in := newInbox()
		c := testDevice.newConn(newSocket(a), params, mpa.Frame{}, rdma.ConnConfig{Handler: in, Recvs: 8, RecvSize: 100, Immediate: true}, !initiator)
		mem := make([]byte, 64+2*around)
		r, err := c.Register(mem[around:around+64], rdma.RemoteRead|rdma.RemoteWrite|rdma.RemoteAtomic)
		require.NoError(t, err)
		c.startReader()
		sink, fates := make([]byte, 8+2*around), make(completionWaiter, 4)
		require.NoError(t, c.Post(
			rdma.WR{Op: rdma.OpRead, Data: [][]byte{sink[around : around+8]}, Done: fates},
			rdma.WR{Op: rdma.OpFetchAdd, Done: fates},
			rdma.WR{Op: rdma.OpImmediate, Done: fates},
			rdma.WR{Op: rdma.OpSend, Done: fates},
		))
		data = bytes.ReplaceAll(data, binary.BigEndian.AppendUint32(nil, seedRegion), binary.BigEndian.AppendUint32(nil, uint32(r.STag())))
		data = bytes.ReplaceAll(data, binary.BigEndian.AppendUint32(nil, seedSink), binary.BigEndian.AppendUint32(nil, uint32(c.tx.sinkSTag)))
		var sent bytes.Buffer
		drained := runAsync(func() { _, _ = io.Copy(&sent, b) })
		_, _ = b.Write(data)
		b.Close()

		require.Error(t, in.closeError(t))
		for range 4 {
			fates.wait(t)
		}
		require.NoError(t, c.Close())
		r.Deregister()
		requireSoon(t, drained, "the end")
		require.Equal(t, out, buf.Default.Out())
		require.Empty(t, testDevice.findRegion(r.STag()))
		zeros := make([]byte, around)
		for _, b := range [][]byte{mem[:around], mem[around+64:], sink[:around], sink[around+8:]} {
			require.Equal(t, zeros, b)
		}
		checkSent(t, mpatest.Stream{Markers: params.SendMarkers, CRC: crc}, sent.Bytes())
	})
}

// checkSent checks a stream that a connection has sent, perhaps truncated.
func checkSent(t *testing.T, stream mpatest.Stream, b []byte) {
	t.Helper()
	for {
		segment, n, err := stream.Cut(b)
		require.NoError(t, err)
		if n == 0 {
			return
		}
		require.GreaterOrEqual(t, len(segment), 14)
		b = b[n:]
		if segment[0]&0x80 == 0 && segment[1] == 0x47 {
			parseTerminate(t, segment)
			require.Empty(t, b)
		}
	}
}
