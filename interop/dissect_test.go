//go:build interop

package interop

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// dissected are tshark 4.0's complaints about our own two ends: it knows only
// revision 1 of MPA.
var dissected = []expertInfo{
	{"Request", "IWARP_MPA", "Res field is NOT set to zero as required by RFC 5044"},
	{"Request", "IWARP_MPA", "Rev field is NOT set to one as required by RFC 5044"},
}

// asIs keeps tshark from decoding the data as RPC.
const asIs = "--disable-protocol=rpcordma"

// connEnds are the ends of a connection between ours.
type connEnds struct {
	conns [2]rdma.Conn // initiator, responder
	recvs [2]*rdma.ReceiveQueue
	done  *rdma.CompletionQueue
}

// TestDissect makes two ends of ours use all operations, in both directions,
// with CRCs and without, and tshark decode them.
func TestDissect(t *testing.T) {
	for name, crc := range map[string]mpa.CRC{"CRC on": mpa.CRCOn, "CRC off": mpa.CRCOff} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			require.NoError(t, err)
			ln := iwarp.Open(iwarp.Config{CRC: crc}).NewListener(l)
			defer ln.Close()
			raw := filepath.Join(t.TempDir(), "ends.pcap")
			capture := Record(t, raw, fmt.Sprintf("tcp port %d", portOf(t, l.Addr().String())))
			s := connectEnds(t, ln, crc, 20)
			exchangeAll(t, s)
			s.closeEnds(t)
			connections := 1
			for _, wr := range faultyRequests() {
				expectTerminate(t, ln, crc, wr)
				connections++
			}
			capture.End(t)

			cut, n := resegmentCapture(t, raw)
			keepCaptures(t, cut)
			assert.Equal(t, 2*connections, n.Frames)
			found := countFramesByFilter(t, cut, []string{asIs}, "iwarp_mpa.req || iwarp_mpa.rep", "iwarp_ddp_rdmap", "_ws.malformed")
			assert.Equal(t, []int{n.Frames, n.FPDUs, 0}, found, "what tshark finds, and what it finds malformed")
			checkMessages(t, cut)
			checkHeaders(t, cut)
			checkTerminates(t, cut)
			checkCRCs(t, cut, n.FPDUs, crc == mpa.CRCOn)
			for c, n := range expertInfos(t, cut, asIs) {
				assert.Contains(t, dissected, c, "%d times", n)
			}
		})
	}
}

// connectEnds makes a connection.
func connectEnds(t *testing.T, ln *iwarp.Listener, crc mpa.CRC, recvs int) *connEnds {
	t.Helper()
	s := &connEnds{done: rdma.NewCompletionQueue(100)}
	config := func(i int) rdma.ConnConfig {
		s.recvs[i] = rdma.NewReceiveQueue()
		return rdma.ConnConfig{Handler: s.recvs[i], Recvs: recvs, Immediate: true}
	}
	responder := make(chan rdma.Conn, 1)
	go func() {
		defer close(responder)
		req, err := ln.Accept(context.Background())
		if !assert.NoError(t, err) {
			return
		}
		c, err := req.Accept(config(1))
		if assert.NoError(t, err) {
			responder <- c
		}
	}()
	nc, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	c, err := iwarp.Open(iwarp.Config{CRC: crc}).Client(t.Context(), nc, config(0))
	require.NoError(t, err)
	s.conns[0], s.conns[1] = c, <-responder
	require.NotNil(t, s.conns[1])
	return s
}

func (s *connEnds) closeEnds(t *testing.T) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- s.conns[1].Close() }()
	assert.NoError(t, s.conns[0].Close())
	assert.NoError(t, <-closed)
}

// exchangeAll does every operation from each end.
func exchangeAll(t *testing.T, s *connEnds) {
	t.Helper()
	for i, c := range s.conns {
		peer := s.conns[1-i]
		mem := make([]byte, 200_000)
		region, err := peer.Register(mem, rdma.RemoteRead|rdma.RemoteWrite|rdma.RemoteAtomic)
		require.NoError(t, err)
		spare, err := peer.Register(mem[:8], rdma.RemoteRead)
		require.NoError(t, err)
		at := rdma.Remote{STag: region.STag(), TO: region.TO()} // a word that is 0
		behind := rdma.Remote{STag: at.STag, TO: at.TO + rdma.WordLen}
		big := [][]byte{[]byte(strings.Repeat("bytes in many segments ", 8000))}
		word := rdma.Atomic{Operand: 0x1122334455667788, OperandMask: rdma.AllBits, Compare: 0xa1, CompareMask: 0xff}
		wrs := []rdma.WR{
			{Op: rdma.OpSend, Data: [][]byte{[]byte("a Send")}},
			{Op: rdma.OpSend, Data: [][]byte{[]byte("with SE")}, Solicited: true},
			{Op: rdma.OpSend, Data: [][]byte{[]byte("with Invalidate")}, Invalidate: spare.STag(), WithInvalidate: true},
			{Op: rdma.OpSend, Data: nil},
			{Op: rdma.OpWrite, Data: big, Remote: behind},
			{Op: rdma.OpWrite},
			{Op: rdma.OpRead, Data: [][]byte{make([]byte, 100_000)}, Remote: behind},
			{Op: rdma.OpRead, Data: [][]byte{nil}},
			{Op: rdma.OpFetchAdd, Remote: at, Atomic: word},
			{Op: rdma.OpCompareSwap, Remote: at, Atomic: word},
			{Op: rdma.OpImmediate, Immediate: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}},
			{Op: rdma.OpImmediate, Immediate: [8]byte{8, 7, 6, 5, 4, 3, 2, 1}, Solicited: true},
			{Op: rdma.OpSend, Solicited: true, Invalidate: region.STag(), WithInvalidate: true, Fence: true},
		}
		for j := range wrs {
			wrs[j].Done = s.done
		}
		require.NoError(t, c.Post(wrs...))
		for j := range wrs {
			got, err := s.done.Wait(t.Context())
			require.NoError(t, err)
			require.NoError(t, got.Err, "work request %d", j)
		}
		for range 7 { // Sends of all kinds, and Immediate Data
			m, err := s.recvs[1-i].Wait(t.Context())
			require.NoError(t, err)
			if m.Buf != nil {
				m.Buf.Release()
			}
		}
	}
}

// faultyRequests returns work requests that the peer answers with a Terminate, each
// with different headers.
func faultyRequests() []rdma.WR {
	return []rdma.WR{
		{Op: rdma.OpWrite, Data: [][]byte{{1, 2, 3}}, Remote: rdma.Remote{STag: 0x12345678, TO: 5}},
		{Op: rdma.OpSend, Data: [][]byte{{1, 2, 3}}},
		{Op: rdma.OpRead, Data: [][]byte{{0}}, Remote: rdma.Remote{STag: 0x12345678}},
		{Op: rdma.OpFetchAdd, Remote: rdma.Remote{STag: 0x12345678}},
	}
}

// expectTerminate posts a work request that the peer rejects, and expects its
// Terminate.
func expectTerminate(t *testing.T, ln *iwarp.Listener, crc mpa.CRC, wr rdma.WR) {
	t.Helper()
	s := connectEnds(t, ln, crc, 0)
	defer s.closeEnds(t)
	require.NoError(t, s.conns[0].Post(wr))
	for i, remote := range []bool{true, false} {
		_, err := s.recvs[i].Wait(t.Context())
		var fault *iwarp.Fault
		require.ErrorAs(t, err, &fault)
		assert.Equal(t, remote, fault.Remote)
	}
}

// frameFields returns the values of fields in each frame that the filter selects.
func frameFields(t *testing.T, file, filter string, names ...string) (all [][]string) {
	t.Helper()
	args := []string{asIs, "-Y", filter, "-T", "fields"}
	for _, n := range names {
		args = append(args, "-e", n)
	}
	for line := range strings.Lines(Tshark(t, file, args...)) {
		all = append(all, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return all
}

// checkMessages checks that tshark finds each operation as often as it was
// done, on the right queue and with the right sequence number.
func checkMessages(t *testing.T, file string) {
	t.Helper()
	got := make(map[string]int)
	last := make(map[string]int) // MSN of a queue
	for _, f := range frameFields(t, file, "iwarp_ddp.last_flag == 1", "tcp.stream", "tcp.srcport", "iwarp_rdma.opcode", "iwarp_ddp.qn", "iwarp_ddp.msn") {
		got[f[2]+" on "+f[3]]++
		if f[3] != "" {
			queue := f[0] + f[1] + f[3]
			last[queue]++
			assert.Equal(t, fmt.Sprint(last[queue]), f[4], "%v", f)
		}
	}
	assert.Equal(t, map[string]int{
		"0x00 on ": 5, "0x02 on ": 4, // RDMA Write, RDMA Read Response
		"0x03 on 0": 5, "0x04 on 0": 2, "0x05 on 0": 2, "0x06 on 0": 2, // Sends
		"0x08 on 0": 2, "0x09 on 0": 2, // Immediate Data, which tshark 4.0 calls unknown
		"0x01 on 1": 5, "0x0a on 1": 5, // RDMA Read Request, Atomic Request
		"0x07 on 2": 4, // Terminate
		"0x0b on 3": 4, // Atomic Response
	}, got)
}

// checkHeaders checks tshark's view of the headers of RDMAP.
func checkHeaders(t *testing.T, file string) {
	t.Helper()
	const add = "1234605616436508552" // 0x1122334455667788
	assert.Equal(t, [][]string{
		{"100000"}, {"0"}, {"100000"}, {"0"}, {"1"},
	}, frameFields(t, file, "iwarp_rdma.opcode == 1", "iwarp_rdma.rdmardsz"))
	requests := frameFields(t, file, "iwarp_rdma.opcode == 10 && tcp.stream == 0", "iwarp_rdma.atomic.opcode",
		"iwarp_rdma.atomic.request_identifier", "iwarp_rdma.atomic.remote_tagged_offset", "iwarp_rdma.atomic.add_data",
		"iwarp_rdma.atomic.add_mask", "iwarp_rdma.atomic.swap_data", "iwarp_rdma.atomic.swap_mask",
		"iwarp_rdma.atomic.compare_data", "iwarp_rdma.atomic.compare_mask")
	require.Len(t, requests, 4)
	for i, r := range requests {
		if i%2 == 0 {
			assert.Equal(t, []string{"0", "1", "0", add, "0xffffffffffffffff", "", "", "0", "0xffffffffffffffff"}, r)
		} else {
			assert.Equal(t, []string{"2", "2", "0", "", "", add, "0xffffffffffffffff", "161", "0x00000000000000ff"}, r)
		}
	}
	assert.Equal(t, [][]string{{"1", "0"}, {"2", add}, {"1", "0"}, {"2", add}}, frameFields(t, file, "iwarp_rdma.opcode == 11",
		"iwarp_rdma.atomic.original_request_identifier", "iwarp_rdma.atomic.original_remote_data_value"))
	for _, r := range frameFields(t, file, "iwarp_rdma.opcode == 4 || iwarp_rdma.opcode == 6", "iwarp_rdma.inval_stag") {
		assert.NotContains(t, []string{"", "0"}, r[0])
	}
}

// checkTerminates checks tshark's view of the Terminates. (4.0 takes the DDP
// header for a tagged one if the error is RDMAP's.)
func checkTerminates(t *testing.T, file string) {
	t.Helper()
	assert.Equal(t, [][]string{
		{"0x01", "", "0x01", "", "0x00", "", "1", "1", "0", "0011", "c140123456780000000000000005"},
		{"0x01", "", "0x02", "", "", "0x02", "1", "1", "0", "0015", "414300000000000000000000000100000000"},
		{"0x00", "0x01", "", "0x00", "", "", "1", "1", "1", "002e", "4141000000000000000100000001"},
		{"0x00", "0x01", "", "0x00", "", "", "1", "1", "0", "0046", "414a000000000000000100000001"},
	}, frameFields(t, file, "iwarp_rdma.opcode == 7", "iwarp_rdma.term_layer", "iwarp_rdma.term_etype_rdma", "iwarp_rdma.term_etype_ddp",
		"iwarp_rdma.term_errcode_rdma", "iwarp_rdma.term_errcode_ddp_tagged", "iwarp_rdma.term_errcode_ddp_untagged",
		"iwarp_rdma.term_hdrct_m", "iwarp_rdma.hdrct_d", "iwarp_rdma.hdrct_r", "iwarp_rdma.term_ddp_seg_len", "iwarp_rdma.term_ddp_h"))
}

// checkCRCs checks that tshark, which recomputes each CRC, agrees.
func checkCRCs(t *testing.T, file string, fpdus int, crc bool) {
	t.Helper()
	all := Tshark(t, file, asIs, "-V", "-Y", "iwarp_ddp_rdmap")
	good := 0
	if crc {
		good = fpdus
	}
	assert.Equal(t, good, strings.Count(all, "Good CRC32"))
	assert.Equal(t, fpdus-good, strings.Count(all, "CRC: 0x00000000\n"))
}
