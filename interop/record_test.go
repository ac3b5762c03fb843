//go:build interop

package interop

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// TestRecord checks that tshark decodes a connection's own record: over IPv4
// and IPv6, with CRCs, with Markers, and with the middle of the record dropped.
func TestRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		listen  string
		crc     mpa.CRC
		markers bool // in the stream that the responder receives
		record  int
		drops   bool
	}{
		"CRC on":          {"127.0.0.1:0", mpa.CRCOn, false, 16 << 20, false},
		"CRC off, IPv6":   {"[::1]:0", mpa.CRCOff, false, 16 << 20, false},
		"dropped":         {"127.0.0.1:0", mpa.CRCOn, false, 1, true},
		"Markers":         {"127.0.0.1:0", mpa.CRCOn, true, 16 << 20, false},
		"Markers dropped": {"127.0.0.1:0", mpa.CRCOn, true, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", tt.listen)
			require.NoError(t, err)
			ln := iwarp.Open(iwarp.Config{CRC: tt.crc, Markers: tt.markers, Record: tt.record}).NewListener(l)
			defer ln.Close()
			s := connectEnds(t, ln, tt.crc, 20)
			exchangeAll(t, s)
			require.Error(t, s.postRejected(t))
			s.closeEnds(t)
			file := recordOf(t, s.conns[1])
			keepCaptures(t, file)

			n := countFramesByFilter(t, file, []string{asIs}, "tcp.len > 0", "iwarp_mpa.req", "iwarp_mpa.rep", "iwarp_ddp_rdmap", "iwarp_mpa.fpdu", "iwarp_rdma.opcode == 7",
				"iwarp_rdma.opcode >= 3 && iwarp_rdma.opcode <= 6 && iwarp_ddp.last_flag == 1", "_ws.malformed", "tcp.analysis.flags")
			packets, sends := n[0], n[6]
			assert.Equal(t, []int{1, 1}, n[1:3], "MPA Requests and Replies")
			assert.Equal(t, []int{packets - 2, packets - 2}, n[3:5], "an FPDU in each")
			assert.Equal(t, 1, n[5], "Terminate messages")
			if tt.drops {
				assert.Less(t, sends, 10)
			} else {
				assert.Equal(t, 10, sends)
			}
			assert.Zero(t, n[7], "malformed")
			assert.Zero(t, n[8], "tshark's warnings about TCP")
			checkCRCs(t, file, packets-2, tt.crc == mpa.CRCOn)
			for c, n := range expertInfos(t, file, asIs) {
				assert.Contains(t, dissected, c, "%d times", n)
			}
		})
	}
}

// TestRecordOfPrograms checks that tshark finds the calls and replies of a copy
// in the records of both programs: all of them in mountrdma's file, and the
// last in the daemon's.
func TestRecordOfPrograms(t *testing.T) {
	dir := t.TempDir()
	d := startDaemon(t, "--no-root-squash", "--record", dir, "--record-size=4MiB")
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "f"), bytes.Repeat([]byte("bytes "), 300_000), 0o644))
	file := filepath.Join(dir, "mountrdma")
	runMountrdma(t, "cp", "nfs://"+d.rdma+"/x/f", filepath.Join(dir, "copy"), "--crc=on", "--record", file)

	m := exec.Command(programPath("mountrdma"), "bench", "nfs://"+d.rdma+"/x/f", "--op=read", "--block=64KiB", "--depth=4", "--time=1h") // so that the record holds some calls
	running, err := StartProcess(m)
	require.NoError(t, err)
	defer running.Kill()
	var files []string
	require.Eventually(t, func() bool { // the record of a connection under load
		d.proc.Signal(unix.SIGUSR1)
		files, err = filepath.Glob(filepath.Join(dir, "*.pcap"))
		require.NoError(t, err)
		return len(files) > 2
	}, daemonLimit, time.Second)
	running.Kill()
	keepCaptures(t, file, files[2])

	for _, f := range []string{file, files[2]} {
		n := countFramesByFilter(t, f, nil, "rpc.msgtyp == 0", "rpc.msgtyp == 1", "rpc.dup", "nfs.procedure_v3 == 6", "iwarp_mpa.req || iwarp_mpa.rep", "tcp.len > 0",
			"iwarp_ddp_rdmap", "tcp.analysis.flags")
		if f == file {
			assert.Equal(t, n[0], n[1], "calls and replies")
			assert.Zero(t, n[2], "all in order")
		}
		assert.Positive(t, n[3], "READ")
		assert.Equal(t, 2, n[4], "MPA Requests and Replies")
		assert.Equal(t, n[5], 2+n[6], "an FPDU in each packet but these")
		assert.Zero(t, n[7], "tshark's warnings about TCP")
		for c, n := range expertInfos(t, f) {
			assert.Contains(t, linux, c, "%d times", n)
		}
	}
}

// postRejected has the initiator post a Write that the responder does not accept.
func (s *connEnds) postRejected(t *testing.T) error {
	t.Helper()
	require.NoError(t, s.conns[0].Post(rdma.WR{
		Op: rdma.OpWrite, Data: [][]byte{{1, 2, 3}}, Remote: rdma.Remote{STag: 0x12345678},
	}))
	_, err := s.recvs[0].Wait(t.Context())
	return err
}

// recordOf writes the record of a connection to a file.
func recordOf(t *testing.T, c rdma.Conn) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "record.pcap")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, c.(*iwarp.Conn).WriteRecord(f))
	require.NoError(t, f.Close())
	return file
}
