//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestVersion4 checks the workload by versions 4.0 to 4.2 of Linux's client on
// nfsrdmad, each over one transport. With INTEROP_SOAK it is the whole workload, by
// each version over each transport.
func TestVersion4(t *testing.T) {
	sharedGuest(t)
	type by struct{ transport, vers string }
	all, steps := []by{{"rdma", "4.2"}, {"tcp", "4.1"}, {"rdma", "4.0"}}, []string{
		"parallel", "truncate", "sparse", "rename", "links", "attributes", "access", "names", "special", "errors",
	}
	if os.Getenv("INTEROP_SOAK") != "" {
		all, steps = append(all, by{"tcp", "4.2"}, by{"rdma", "4.1"}, by{"tcp", "4.0"}), nil
	}
	for _, c := range all {
		t.Run(c.vers+" over "+c.transport, func(t *testing.T) {
			d := startDaemon(t, "--no-root-squash")
			before := d.openFiles()
			runSession(t, d.guestSite().withVersion(c.vers), c.transport, steps...)
			d.checkDescriptors(before)
			d.stopGracefully()
			assert.NotContains(t, d.stderr.String(), "level=WARN")
		})
	}
}

// TestRestart4 repeats TestRestart over NFSv4: Linux creates new sessions, and reopens its
// files.
func TestRestart4(t *testing.T) {
	d := startDaemon(t, "--no-root-squash")
	checkRestart(t, d, d.guestSite().withVersion("4.2"), d.guestSite().withVersion("4.1"), true)
}

// TestRestart40 repeats TestRestart4 over NFSv4.0: the clients reclaim their state, and
// their other opens wait until the grace period ends, after 45 s. (R7530-9.1.1-9)
func TestRestart40(t *testing.T) {
	d := startDaemon(t, "--no-root-squash")
	checkRestart(t, d, d.guestSite().withVersion("4.0"), d.guestSite().withVersion("4.0"), os.Getenv("INTEROP_SOAK") != "")
}

// TestSpecial4 opens pipes and devices that Linux has not looked up before.
func TestSpecial4(t *testing.T) {
	s := startDaemon(t, "--no-root-squash").guestSite()
	for _, vers := range []string{"4.0", "4.1", "4.2"} {
		options := s.withVersion(vers).mountOptions("tcp")
		s.mountInGuest(t, "/mnt", options)
		mustInGuest(t, "mkfifo /mnt/pipe; mknod /mnt/null c 1 3")
		unmountInGuest(t, "/mnt")
		s.mountInGuest(t, "/mnt", options)
		assert.Equal(t, "written\n", mustInGuest(t, "echo written >/mnt/pipe & timeout 10 cat /mnt/pipe; wait"))
		assert.Empty(t, mustInGuest(t, "cat /mnt/null"))
		unmountInGuest(t, "/mnt")
		s.mountInGuest(t, "/mnt", options)
		assert.Empty(t, mustInGuest(t, "echo written >/mnt/null; rm /mnt/pipe /mnt/null"))
		unmountInGuest(t, "/mnt")
	}
}

// interruptLimit bounds the work after calls were interrupted. Linux pauses for
// 15 s if the server does not explain the state of a slot.
const interruptLimit = 10 * time.Second

// TestInterrupted4 kills programs while their calls wait for nfsrdmad. The
// sessions must then be of further use at once, because Linux does not know
// which of these calls were executed. Programs whose calls return a delegation could
// not be killed, so there are none.
func TestInterrupted4(t *testing.T) {
	d := startDaemon(t, "--no-root-squash", "--delegations", "off")
	s := d.guestSite()
	s.withVersion("4.2").mountInGuest(t, "/mnt", s.withVersion("4.2").mountOptions("rdma"))
	s.withVersion("4.1").mountInGuest(t, "/mnt2", s.withVersion("4.1").mountOptions("tcp"))
	mustInGuest(t, "cd /mnt; for n in 1 2 3 4; do echo $n >file$n; done; cat /mnt2/file*")
	d.proc.Stop()
	mustInGuest(t, `echo 3 >/proc/sys/vm/drop_caches
		for at in /mnt /mnt2; do for n in 1 2 3 4; do
			timeout -s KILL 1 touch $at/new$n & timeout -s KILL 1 rm $at/file$n & timeout -s KILL 1 cat $at/file$n &
		done; done >/dev/null 2>&1; wait; :`)
	d.proc.Signal(syscall.SIGCONT)
	start := time.Now()
	mustInGuest(t, `for at in /mnt /mnt2; do for n in 1 2 3 4 5 6 7 8; do
			echo $n >$at/after$n && [ $(cat $at/after$n) = $n ] && rm $at/after$n || exit 1
		done & done; wait`)
	assert.Less(t, time.Since(start), interruptLimit)
	assert.Empty(t, mustInGuest(t, "ls /mnt/after* 2>/dev/null || :"))
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
}

// TestMount4 mounts with the fewest options that a person must type, at the
// default ports and without a portmapper.
//
// R7530-17-4.
func TestMount4(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	dir := reachableDir(t)
	onHost(t, dir, `for d in a a/below a/plain b c; do mkdir $d; chmod 777 $d; echo $d >$d/name; done; touch a/below/secret; chmod 600 a/below/secret`)
	file := filepath.Join(t.TempDir(), "exports")
	export := func(lines ...string) {
		text := strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "DIR", dir)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	said := new(sharedBuffer)
	t.Cleanup(func() {
		if t.Failed() {
			tryInGuest(t, "grep ' nfs4 ' /proc/mounts | cut -d' ' -f2 | sort -r | xargs -n 1 umount -l")
			t.Logf("nfsrdmad says:\n%s", said)
		}
	})
	serve := func() *Server {
		d, err := StartServer(said, shared.ethernet.inNamespace(t, programPath("nfsrdmad")),
			"--control", "", "--listen", ":20049", "--tcp", ":2049", "--state", t.TempDir(), "--exports", file)
		require.NoError(t, err, "nfsrdmad says: %s", said)
		t.Cleanup(d.Kill)
		return d
	}
	lines := []string{"DIR/a *(rw,insecure,no_root_squash)", "DIR/a/below *(rw,insecure)", "DIR/b *(ro,insecure)"}
	export(lines...)
	d := serve()
	t.Run("tree", func(t *testing.T) { walkTree4(t, dir) })
	t.Run("transports", func(t *testing.T) { mountTransports4(t, dir) })
	t.Run("callbacks of 4.0", func(t *testing.T) { checkCallbacks40(t, dir) })
	t.Run("reload", func(t *testing.T) {
		mountGuest4(t, "", hostEthernet+":/", "/mnt")
		assert.Equal(t, "a\nb\n", mustInGuest(t, "ls /mnt"+dir))
		export(append(lines, "DIR/c *(ro,insecure)")...)
		d.Signal(syscall.SIGHUP)
		require.Eventually(t, func() bool {
			return strings.Contains(said.String(), "the exports were reloaded")
		}, daemonLimit, pollEvery)
		assert.Equal(t, "a\nc\n", mustInGuest(t, fmt.Sprintf("cd /mnt%s; cat a/name c/name", dir)))
		unmountAll4(t)
	})
	d.Kill()
	export("DIR *(rw,insecure,no_root_squash,fsid=0)", "DIR/a *(rw,insecure,no_root_squash)")
	serve()
	t.Run("root", func(t *testing.T) {
		mountGuest4(t, "", hostEthernet+":/", "/mnt")
		assert.Equal(t, "a\nb\nc\n", mustInGuest(t, "ls /mnt"))
		assert.Equal(t, "b\n", mustInGuest(t, "cat /mnt/b/name"))
		assert.NotContains(t, listMounts4(t), "/mnt/a")
		assert.Equal(t, "a\n", mustInGuest(t, "cat /mnt/a/name"))
		assert.Contains(t, listMounts4(t), "/mnt/a", "an export is a file system of its own")
		unmountAll4(t)
		mountGuest4(t, "", hostEthernet+":/a", "/mnt")
		assert.Equal(t, "a\n", mustInGuest(t, "cat /mnt/name"))
		unmountAll4(t)
	})
}

// walkTree4 walks from the root of the server into its exports.
func walkTree4(t *testing.T, dir string) {
	mountGuest4(t, "", hostEthernet+":/", "/mnt")
	a, b := "/mnt"+dir+"/a", "/mnt"+dir+"/b"
	assert.Equal(t, "a\nb\n", mustInGuest(t, "ls /mnt"+dir))
	assert.Equal(t, "a\na/below\nb\n", mustInGuest(t, fmt.Sprintf("cat %s/name %[1]s/below/name %s/name", a, b)))
	assert.Equal(t, map[string]string{"/mnt": "tcp", a: "tcp", a + "/below": "tcp", b: "tcp"}, listMounts4(t))
	assert.Equal(t, fmt.Sprintf("%s\n%[1]s\n%s\n", a, b),
		mustInGuest(t, fmt.Sprintf("cd %s/below && cd .. && pwd -P && cd plain && cd .. && pwd -P && cd %s && pwd -P", a, b)))
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &st))
	var kib float64
	_, err := fmt.Sscan(mustInGuest(t, "df -k "+a+" | awk 'END { print $(NF-4) }'"), &kib)
	require.NoError(t, err)
	assert.InDelta(t, float64(st.Blocks)*float64(st.Bsize)/1024, kib, 1024, "Linux counts in MiB")

	mustInGuest(t, fmt.Sprintf("cd %s && echo x >new && cat new && rm new && mv plain moved && mv moved plain", a))
	mustInGuest(t, fmt.Sprintf("cd %s/below && echo x >new && [ $(stat -c %%u new) = 65534 ] && rm new", a)) // squashed
	for script, with := range map[string]string{
		"echo x >" + b + "/new":           "Read-only file system",
		"rm -f " + b + "/name":            "Read-only file system",
		"cat " + a + "/below/secret":      "Permission denied",
		"touch /mnt/new":                  "Read-only file system",
		"mkdir /mnt/new":                  "Read-only file system",
		"rmdir /mnt" + dir:                "Read-only file system",
		"rmdir " + a + "/below":           "Device or resource busy",
		"ln " + a + "/name " + b + "/new": "Invalid cross-device link",
	} {
		out, status := tryInGuest(t, script)
		assert.NotZero(t, status, script)
		assert.Contains(t, out, with, script)
	}
	unmountAll4(t)
}

// mountTransports4 mounts over each transport.
func mountTransports4(t *testing.T, dir string) {
	path := ":" + dir + "/a"
	mountGuest4(t, "", hostEthernet+path, "/mnt")
	mountGuest4(t, "rdma", hostEthernet+path, "/mnt2")
	assert.Equal(t, map[string]string{"/mnt": "tcp", "/mnt2": "rdma"}, listMounts4(t), "each uses its own")
	assert.Equal(t, "a\na\n", mustInGuest(t, "cat /mnt/name /mnt2/name"))
	assert.Equal(t, []int{1, 1}, countConnections4(t))
	// Another client may know a name for as long as it keeps attributes; an open asks.
	mustInGuest(t, "echo by rdma >/mnt2/new && cat /mnt/new && rm /mnt/new && ! cat /mnt2/new")
	unmountAll4(t)
	assert.Equal(t, []int{0, 0}, countConnections4(t))

	mountGuest4(t, "nconnect=4", hostEthernet+path, "/mnt")
	mustInGuest(t, "cd /mnt && for n in 1 2 3 4 5 6 7 8; do echo $n >new$n; done && cat new* && rm new*")
	assert.Equal(t, []int{4, 0}, countConnections4(t))
	unmountAll4(t)
	for _, o := range []struct{ options, host, proto string }{
		{"vers=4.0", hostEthernet, "tcp"},
		{"rdma,vers=4.0", hostEthernet, "rdma"},
		{"vers=4.1", hostEthernet, "tcp"},
		{"rdma,vers=4.1", hostEthernet, "rdma"},
		{"", "[" + host6 + "]", "tcp6"},
		{"proto=rdma6", "[" + host6 + "]", "rdma6"},
	} {
		mountGuest4(t, o.options, o.host+path, "/mnt")
		assert.Equal(t, "a\n", mustInGuest(t, "cat /mnt/name"))
		assert.Equal(t, map[string]string{"/mnt": o.proto}, listMounts4(t))
		unmountAll4(t)
	}
	out, status := tryInGuest(t, "mount.nfs "+hostEthernet+path+"/missing /mnt")
	assert.NotZero(t, status, out)
	assert.Empty(t, listMounts4(t))
}

// checkCallbacks40 checks that Linux gets delegations over NFSv4.0 over TCP, whose
// callbacks the server makes over connections of its own, and returns them. Over RDMA
// Linux names a network for callbacks to which the server does not connect.
func checkCallbacks40(t *testing.T, dir string) {
	mountGuest4(t, "proto=tcp,vers=4.0", hostEthernet+":"+dir+"/a", "/mnt")
	file := filepath.Join(dir, "a", "name")
	read := func() string { return mustInGuest(t, "cat /mnt/name") }
	opens := func() int {
		n := callsOf(t, "/mnt")
		return n["OPEN"] + n["OPEN_NOATTR"]
	}
	eventually(t, func() bool { // the server has tried the callback
		read()
		before := opens()
		read()
		return opens() == before
	}, daemonLimit, pollEvery, "each open is a call")
	onHost(t, dir, "echo changed >>"+file)
	assert.Equal(t, "a\nchanged\n", read())
	onHost(t, dir, "echo a >"+file)
	unmountAll4(t)
}

// mountGuest4 mounts from a server, with these options alone, and checks the version:
// 4.2 if the options request none.
func mountGuest4(t *testing.T, options, from, point string) {
	t.Helper()
	vers := "4.2"
	if _, v, ok := strings.Cut(options, "vers="); ok {
		vers = v
	}
	if options != "" {
		options = "-o " + options
	}
	mustInGuest(t, fmt.Sprintf("mkdir -p %[1]s; mount -t nfs %s %s %[1]s", point, options, from))
	assert.Contains(t, mustInGuest(t, "grep ' "+point+" ' /proc/mounts"), "vers="+vers+",")
}

// listMounts4 returns the mounts over NFSv4, with their transports.
func listMounts4(t *testing.T) map[string]string {
	t.Helper()
	mounts := make(map[string]string)
	for line := range strings.Lines(mustInGuest(t, "grep ' nfs4 ' /proc/mounts || :")) {
		f := strings.Fields(line)
		_, proto, _ := strings.Cut(f[3], ",proto=")
		mounts[f[1]], _, _ = strings.Cut(proto, ",")
	}
	return mounts
}

// unmountAll4 unmounts all that is mounted over NFSv4, the innermost first.
func unmountAll4(t *testing.T) {
	t.Helper()
	mustInGuest(t, "grep ' nfs4 ' /proc/mounts | cut -d' ' -f2 | sort -r | xargs -n 1 umount")
	assert.Empty(t, listMounts4(t))
}

// countConnections4 returns the numbers of the guest's connections to the default
// ports, over TCP and over RDMA.
func countConnections4(t *testing.T) (n []int) {
	t.Helper()
	out := mustInGuest(t, "ss -Htn state established")
	for _, port := range []string{":2049", ":20049"} {
		count := 0
		for _, word := range strings.Fields(out) {
			if strings.HasSuffix(word, port) {
				count++
			}
		}
		n = append(n, count)
	}
	return n
}
