package doctor

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// assertFinding checks that a list contains a finding.
func assertFinding(t *testing.T, list []Finding, check string, g Grade, found, remedy string) {
	t.Helper()
	for _, f := range list {
		if f.Check == check && f.Grade == g {
			assert.Contains(t, f.Found, found)
			assert.Contains(t, f.Remedy, remedy)
			assert.Equal(t, g == OK, f.Remedy == "", f)
			return
		}
	}
	t.Errorf("%s %s: %q is not in %v", check, g, found, list)
}

// TestFileSystems checks file systems that are full, read-only, or without reliable handles or
// leases.
func TestFileSystems(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		nstest.Script(t, "cd "+dir+`
mkdir full few little readonly lower upper overlay ramfs fuse
mount -t tmpfs -o size=64k tmpfs full
dd if=/dev/zero of=full/f bs=4k 2>/dev/null || true
mount -t tmpfs -o nr_inodes=2 tmpfs few
touch few/f
mount -t tmpfs -o size=400k tmpfs little
dd if=/dev/zero of=little/f bs=4k count=97 2>/dev/null
mount -t tmpfs -o ro tmpfs readonly
mount -t tmpfs tmpfs lower
mount -t tmpfs tmpfs upper
mount -t ramfs ramfs ramfs
mkdir upper/u upper/w
mount -t overlay -o lowerdir=lower,upperdir=upper/u,workdir=upper/w overlay overlay
`)
		defer nstest.Script(t, "cd "+dir+"; umount -l full few little readonly overlay upper lower ramfs")
		empty, err := fs.Mount(dir+"/fuse", &fs.Inode{}, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, Name: "test"}})
		require.NoError(t, err)
		defer func() { assert.NoError(t, empty.Unmount()) }()
		for name, want := range map[string]Finding{
			"full":     {"space", Fail, "is full", "du -xsh " + dir + "/full"},
			"few":      {"space", Fail, "no space for more files", "du -x --inodes " + dir + "/few"},
			"little":   {"space", Warn, "3 % of the file system", "du -xsh"},
			"readonly": {"space", Fail, "read-only", "mount -o remount,rw " + dir + "/readonly"},
			"overlay":  {"handles", Warn, "(overlay): the kernel cannot open files by handle", "nfs_export=on"},
			"ramfs":    {"handles", Warn, "(ramfs): the kernel cannot open files by handle (operation not supported)", "export a directory of ext4"},
			"fuse":     {"handles", Warn, "(fuse.test): the kernel opens files by handle only while they are in its cache", "host that has its disk"},
			"upper/u":  {"directory", OK, "is a directory (tmpfs, file handles, leases)", ""},
		} {
			assertFinding(t, checkDirectory(dir+"/"+name, true, false), want.Check, want.Grade, want.Found, want.Remedy)
		}
		assertFinding(t, checkDirectory(dir+"/overlay", true, false), "leases", Warn, "(overlay): some changes break no lease: clients get no delegations", "exclusive")
		for _, f := range checkDirectory(dir+"/overlay", true, true) {
			assert.NotEqual(t, "leases", f.Check, "exclusive exports need none")
		}
		for _, f := range checkDirectory(dir+"/readonly", false, false) {
			assert.NotEqual(t, "space", f.Check, "read-only exports need no space")
		}
		h := NewHost()
		for clients, want := range map[string]bool{"a(rw,exclusive) b(rw,exclusive)": false, "a(rw,exclusive) b(rw)": true} {
			h.Exports = func() (*exports.File, error) { return exports.Parse("exports", []byte(dir+"/overlay "+clients+"\n")) }
			list := h.checkExports(t.Context())
			assert.Equal(t, want, slices.ContainsFunc(list, func(f Finding) bool { return f.Check == "leases" }), "%s: %v", clients, list)
		}
		h.State = dir + "/readonly/state"
		assertFinding(t, []Finding{h.checkState(t.Context())}, "state", Fail, "read-only", "remount,rw")
		h.State = dir + "/full"
		assertFinding(t, []Finding{h.checkState(t.Context())}, "state", Fail, "is full", "free some space")
	})
}

// TestMTU checks interfaces with several MTUs.
func TestMTU(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		assert.Contains(t, checkMTU().Found, "no interface but loopback")
		nstest.Script(t, `
ip link add m0 type veth peer name m1
ip addr add 10.1.0.1/24 dev m0
ip link set m0 up; ip link set m1 up`)
		assert.Equal(t, Finding{"mtu", OK, "the MTUs of interfaces: m0 1500", ""}, checkMTU())
		nstest.Script(t, "ip link set m0 mtu 1400")
		assert.Equal(t, "ip link set dev m0 mtu 1500, unless its network's MTU is smaller, as in tunnels", checkMTU().Remedy)
		nstest.Script(t, "ip link set m0 mtu 9000")
		assert.Equal(t, OK, checkMTU().Grade)
		assert.Contains(t, checkMTU().Found, "switches and clients must use the same")
		nstest.Script(t, `
ip link add n0 type veth peer name n1
ip addr add 10.2.0.1/24 dev n0
ip link set n0 up; ip link set n1 up`)
		assert.Equal(t, Warn, checkMTU().Grade)
		assert.Contains(t, checkMTU().Found, "m0 9000, n0 1500")
	})
}

// TestDaemonFiles checks daemons at their limit of open files, near it and below it.
func TestDaemonFiles(t *testing.T) {
	h := NewHost()
	h.limit = func() (uint64, error) { return 16384, nil }
	h.FilesFor = func() (int, uint64) { return 10, 20 }
	h.Daemon = func() (int, bool) { return os.Getpid(), true }
	assert.Contains(t, h.checkOpenFiles().Found, "files open of at most ")
	for range 100 {
		file, err := os.Open("/dev/null")
		require.NoError(t, err)
		defer file.Close()
	}
	var own unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &own))
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open)) + 5, Max: own.Max}))
	f := h.checkOpenFiles()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &own))
	assertFinding(t, []Finding{f}, "files", Warn, "soon it accepts no further connections", "LimitNOFILE=")

	cmd := exec.Command("sh", "-c", "echo; read x")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1)) // its files are open
	require.NoError(t, err)
	require.NoError(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil))
	h.Daemon = func() (int, bool) { return cmd.Process.Pid, true }
	assertFinding(t, []Finding{h.checkOpenFiles()}, "files", Fail, "files open of at most 3: it accepts no further connections", "LimitNOFILE=20 of its unit")
	require.NoError(t, in.Close())
	_ = cmd.Wait() // read fails at the end of its input

	// The process has ended, so the limit of this process is used.
	assert.Equal(t, Finding{"files", OK, "a process may open 16384 files", ""}, h.checkOpenFiles())
}
