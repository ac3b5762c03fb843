//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An expertInfo is a kind of expert information of tshark, of severity warning or
// error.
type expertInfo struct{ group, protocol, summary string }

// linux are tshark 4.0's complaints about sessions between Linux's own client
// and server over siw. It knows only revision 1 of MPA, and looks for the data
// of a READ after a reply whose data went into a Write chunk.
var linux = []expertInfo{
	{"Request", "IWARP_MPA", "Res field is NOT set to zero as required by RFC 5044"},
	{"Request", "IWARP_MPA", "Rev field is NOT set to one as required by RFC 5044"},
	{"Malformed", "NFS", "Malformed Packet (Exception occurred)"},
}

// readReply selects the messages of the last complaint.
const readReply = "rpc.msgtyp == 1 && nfs.procedure_v3 == 6 && rpcordma.writes_count > 0"

// TestCapture captures a session, after an attempt at NFS version 4, and makes
// tshark decode both.
func TestCapture(t *testing.T) {
	d := startDaemon(t, "--no-root-squash", "--vers", "3")
	s := d.guestSite()
	raw := filepath.Join(t.TempDir(), "session.pcap")
	capture := Record(t, raw, fmt.Sprintf("tcp port %d", s.rdma))
	out, status := tryInGuest(t, fmt.Sprintf("mount.nfs %s:/x /mnt -o vers=4.2,proto=rdma,port=%d", s.host, s.rdma))
	assert.NotZero(t, status)
	assert.Contains(t, out, "Protocol not supported")
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	mustInGuest(t, `set -e; cd /mnt; mkdir work; guestwork run /mnt/work truncate rename links attributes access special errors
		dd if=/dev/urandom of=data bs=1M count=1 conv=fsync; echo 3 >/proc/sys/vm/drop_caches; cat data >/dev/null
		ls -lR >/dev/null; df . >/dev/null; rm -rf work data`)
	unmountInGuest(t, "/mnt")
	capture.End(t)

	cut, n := resegmentCapture(t, raw)
	keepCaptures(t, raw, cut)
	// tshark sees every FPDU, and finds an RPC message or RDMA data in it.
	assert.Equal(t, 2*2, n.Frames, "MPA Requests and Replies of two connections")
	found := countFramesByFilter(t, cut, nil, "iwarp_mpa.req || iwarp_mpa.rep", "iwarp_ddp_rdmap", "iwarp_rdma.opcode == 7", "rpcordma.msg_type == 4",
		"rpc.msgtyp == 0", "rpc.msgtyp == 1", "rpc.msgtyp == 0 && rpc.programversion == 4", "rpc.state_accept == 2",
		"_ws.malformed && !("+readReply+")")
	assert.Equal(t, n.Frames, found[0])
	assert.Equal(t, n.FPDUs, found[1])
	assert.Zero(t, found[2], "Terminate messages")
	assert.Zero(t, found[3], "RDMA_ERROR messages")
	assert.Greater(t, found[4], 500, "calls")
	assert.Equal(t, found[4], found[5], "replies")
	assert.Positive(t, found[6], "NFSv4 calls")
	assert.Positive(t, found[7], "PROG_MISMATCH")
	assert.Zero(t, found[8], "malformed, except for replies of READ")

	for c, n := range expertInfos(t, cut) {
		assert.Contains(t, linux, c, "%d times", n)
	}
}

// resegmentCapture brings the capture into the form in which tshark finds every
// FPDU.
func resegmentCapture(t *testing.T, raw string) (string, Units) {
	t.Helper()
	in, err := os.Open(raw)
	require.NoError(t, err)
	defer in.Close()
	cut := filepath.Join(filepath.Dir(raw), "fpdus.pcap")
	out, err := os.Create(cut)
	require.NoError(t, err)
	defer out.Close()
	n, err := resegment(out, in)
	require.NoError(t, err)
	return cut, n
}

// keepCaptures copies the captures to the directory INTEROP_CAPTURE, if that is set.
func keepCaptures(t *testing.T, files ...string) {
	dir := os.Getenv("INTEROP_CAPTURE")
	if dir == "" {
		return
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(f)), b, 0o644))
	}
}

// countFrames returns the number of frames that a display filter selects.
func countFrames(t *testing.T, file, filter string) int {
	t.Helper()
	return countFramesByFilter(t, file, nil, filter)[0]
}

// countFramesByFilter returns the number of frames that each of several display filters, without
// commas, selects. tshark decodes the file once for all of them.
func countFramesByFilter(t *testing.T, file string, args []string, filters ...string) (all []int) {
	t.Helper()
	out := Tshark(t, file, append(args, "-q", "-z", "io,stat,0,"+strings.Join(filters, ","))...)
	for line := range strings.Lines(out) {
		// | interval | frames | bytes | frames | bytes |, up to the width of the filters
		columns := strings.Split(line, "|")
		if len(columns) < 2*len(filters)+3 || !strings.Contains(columns[1], "<>") {
			continue
		}
		for i := range filters {
			all = append(all, parseNumber(t, strings.TrimSpace(columns[2+2*i])))
		}
	}
	require.Len(t, all, len(filters), "%s", out)
	return all
}

// complaintLine is a line of tshark's table of expert information.
var complaintLine = regexp.MustCompile(`(?m)^ +(\d+) +(\S+) +(\S+) +(.*?) *$`)

// expertInfos counts warnings and errors, except those about the kernel's TCP.
func expertInfos(t *testing.T, file string, args ...string) map[expertInfo]int {
	t.Helper()
	found := make(map[expertInfo]int)
	for _, m := range complaintLine.FindAllStringSubmatch(Tshark(t, file, append(args, "-q", "-z", "expert,warn")...), -1) {
		if m[3] != "TCP" {
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			found[expertInfo{m[2], m[3], m[4]}] += n
		}
	}
	return found
}
