//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/workload"
)

// settingLimit bounds some seconds of work, which hangs if connections are
// lost.
const settingLimit = time.Minute

// A linuxSetting configures the exchange between Linux's client and nfsrdmad.
// Thresholds are bytes.
type linuxSetting struct {
	read, write int           // sysctls of the client: the longest messages to the client, and from it
	inline      int           // for nfsrdmad, both ways
	slots       int           // credits that the client requests
	credits     int           // that nfsrdmad grants
	hide        hiddenSupport // ends that do not seem to support Send With Invalidate
}

func (s linuxSetting) String() string {
	return fmt.Sprintf("%d and %d bytes by sysctl, %d by --inline, %d slots, %d credits%s", s.read, s.write, s.inline, s.slots, s.credits, s.hide)
}

func (h hiddenSupport) String() string {
	return map[hiddenSupport]string{
		{false, false}: "", {true, false}: ", client without invalidation", {false, true}: ", server without invalidation",
		{true, true}: ", both without invalidation",
	}[h]
}

// clientSysctls sets the sysctls of Linux's client.
const clientSysctls = "cd /proc/sys/sunrpc && echo %d >rdma_max_inline_read && echo %d >rdma_max_inline_write && echo %d >rdma_slot_table_entries"

// TestSettingsLinux checks that Linux's client and nfsrdmad do small work
// without an error or a lost connection. The work is around the lengths at
// which calls and replies stop fitting inline. The settings vary the thresholds
// over all that Linux allows, the number of credits, and remote invalidation.
//
// The client's Sends stay at 8 KiB: with 64 KiB, siw stops sending in about one
// of some tens of runs, until the client makes another connection after a
// minute.
func TestSettingsLinux(t *testing.T) {
	sharedGuest(t)
	t.Cleanup(func() { mustInGuest(t, fmt.Sprintf(clientSysctls, 4096, 4096, 128)) })
	for _, s := range []linuxSetting{
		{1024, 1024, 1024, 128, 128, hiddenSupport{}},
		{1024, 8192, 65536, 4, 1024, hiddenSupport{}},
		{65536, 1024, 65536, 256, 4, hiddenSupport{}},
		{65536, 65536, 1024, 256, 256, hiddenSupport{}},
		{65536, 8192, 65536, 256, 1024, hiddenSupport{}},
		{8192, 2048, 16384, 4, 4, hiddenSupport{}},
		{4096, 4096, 4096, 128, 128, hiddenSupport{client: true}},
		{4096, 4096, 4096, 128, 128, hiddenSupport{server: true}},
		{1024, 1024, 1024, 128, 128, hiddenSupport{client: true, server: true}},
	} {
		t.Run(s.String(), s.testSetting)
	}
}

func (s linuxSetting) testSetting(t *testing.T) {
	mustInGuest(t, fmt.Sprintf(clientSysctls, s.read, s.write, s.slots))
	d := startDaemon(t, "--no-root-squash", fmt.Sprintf("--inline=%d", s.inline), fmt.Sprintf("--credits=%d", s.credits))
	r := newRelay(t, d.rdma, s.hide)
	site := d.guestSite()
	site.rdma = portOf(t, r.addr)
	site.mountInGuest(t, "/mnt", site.mountOptions("rdma"))
	call, reply := min(s.write, s.inline), min(s.read, s.inline)
	out, status := tryFor(t, settingLimit, fmt.Sprintf("mkdir /mnt/work && guestwork edges /mnt/work %d %d && echo 3 >/proc/sys/vm/drop_caches", call, reply))
	require.Zero(t, status, out)
	sameLines(t, site.readManifest(t, "work"), mustInGuest(t, "guestwork manifest /mnt/work"))

	x := xprtStats(t)
	t.Logf("%+v", x)
	unmountInGuest(t, "/mnt")
	assert.EqualValues(t, 1, x.connects)
	assert.EqualValues(t, 1, r.conns.Load(), "connections")
	assert.Zero(t, x.badXIDs+x.badReplies)
	// The thresholds are as configured: some messages fit inline, and some do
	// not.
	assert.Positive(t, x.readChunks)
	assert.Less(t, x.readChunks, x.writes)
	assert.Positive(t, x.writeChunks)
	assert.Less(t, x.writeChunks, x.reads)
	// Linux need not invalidate the segment that our Send With Invalidate has
	// invalidated. Linux invalidates a second segment itself: data whose length
	// is no multiple of 4 bytes comes with a place for padding.
	chunks := x.readChunks + x.writeChunks + x.replyChunks
	assert.Equal(t, s.hide.client, 2*x.localInvalidations > chunks, "of %d chunks", chunks)
	d.stopGracefully()
	assert.NotContains(t, d.stderr.String(), "level=WARN")
	assert.NotContains(t, d.stderr.String(), "level=ERROR")
}

// An xprt holds a mount's counters and of its connection that the tests use
// (/proc/self/mountstats).
type xprt struct {
	connects, badXIDs, badReplies        int
	readChunks, writeChunks, replyChunks int
	localInvalidations                   int
	reads, writes                        int // calls, including calls for symbolic links
}

// xprtStats reads the mount's counters at /mnt.
func xprtStats(t *testing.T) (x xprt) {
	t.Helper()
	count := func(word string) int {
		n, err := strconv.Atoi(word)
		require.NoError(t, err)
		return n
	}
	for line := range strings.Lines(mustInGuest(t, `sed -n '/ mounted on \/mnt with /,/^device/p' /proc/self/mountstats`)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 26 && f[0] == "xprt:" && f[1] == "rdma":
			at := func(i int) int { return count(f[2+i]) } // from the port on
			x.connects, x.badXIDs, x.badReplies = at(2), at(7), at(19)
			x.readChunks, x.writeChunks, x.replyChunks, x.localInvalidations = at(10), at(11), at(12), at(24)
		case len(f) > 1 && (f[0] == "READ:" || f[0] == "READLINK:"):
			x.reads += count(f[1])
		case len(f) > 1 && (f[0] == "WRITE:" || f[0] == "SYMLINK:"):
			x.writes += count(f[1])
		}
	}
	return x
}

// A knfsdSetting configures the exchange between Linux's server and mountrdma.
type knfsdSetting struct {
	size     int // svc_rdma/max_req_size, bytes
	requests int // svc_rdma/max_requests
	inline   int // for mountrdma
	credits  int // for mountrdma
	hide     hiddenSupport
}

func (s knfsdSetting) String() string {
	return fmt.Sprintf("%d bytes and %d requests by sysctl, %d by --inline, %d credits%s", s.size, s.requests, s.inline, s.credits, s.hide)
}

// serverSysctls sets the sysctls of Linux's server, which reads them for each
// connection.
const serverSysctls = "cd /proc/sys/sunrpc/svc_rdma && echo %d >max_req_size && echo %d >max_requests"

// TestSettingsKnfsd is TestSettingsLinux for mountrdma and Linux's server.
func TestSettingsKnfsd(t *testing.T) {
	sharedGuest(t)
	t.Cleanup(func() { mustInGuest(t, fmt.Sprintf(serverSysctls, 4096, 64)) })
	for _, s := range []knfsdSetting{
		{4096, 4, 1024, 2, hiddenSupport{}},
		{4096, 1024, 65536, 256, hiddenSupport{}},
		{65536, 4, 65536, 256, hiddenSupport{}},
		{65536, 1024, 1024, 256, hiddenSupport{}},
		{65536, 1024, 65536, 2, hiddenSupport{}},
		{16384, 64, 8192, 16, hiddenSupport{client: true}},
		{4096, 64, 4096, 128, hiddenSupport{client: true, server: true}},
	} {
		t.Run(s.String(), s.testSetting)
	}
}

func (s knfsdSetting) testSetting(t *testing.T) {
	mustInGuest(t, fmt.Sprintf(serverSysctls, s.size, s.requests))
	k := knfsdShop(t)
	r := newRelay(t, k.addr, s.hide)
	k.addr = r.addr
	flags := []string{fmt.Sprintf("--inline=%d", s.inline), fmt.Sprintf("--credits=%d", s.credits)}
	run := func(args ...string) string { return runMountrdma(t, append(args, flags...)...) }

	var info struct {
		RPCRDMA struct {
			InlineSend   int `json:"inline_send"`
			InlineRecv   int `json:"inline_recv"`
			Credits      int
			Invalidation struct{ Seen bool } `json:"remote_invalidation"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(run("info", "--json", k.serverArgument())), &info))
	edge := min(s.size, s.inline)
	assert.Equal(t, edge, info.RPCRDMA.InlineSend)
	assert.Equal(t, edge, info.RPCRDMA.InlineRecv)
	assert.Equal(t, min(s.requests, s.credits), info.RPCRDMA.Credits)
	assert.Equal(t, !s.hide.client, info.RPCRDMA.Invalidation.Seen)

	here, back := t.TempDir(), t.TempDir()
	require.NoError(t, workload.EdgeTree(here, edge))
	want := hostDir(here).readManifest(t, "")
	t.Cleanup(func() { k.runShell(t, "rm -rf there") })
	run("cp", "-r", "-p", here, k.fileURL("there"))
	sameLines(t, want, k.readManifest(t, "there"))
	run("cp", "-r", "-p", k.fileURL("there"), back)
	sameLines(t, want, hostDir(back).readManifest(t, "there"))
	run("ls", "-l", k.fileURL("there/names"))
	assert.EqualValues(t, 3+3, r.conns.Load(), "connections of three commands, and of info, which makes one for each version of NFS")
}
