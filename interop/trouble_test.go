//go:build interop

package interop

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	fullSize    = 8 << 20          // size of the file system that gets full, in bytes
	remountWait = 30 * time.Second // for the daemon to let go of files open for writing
)

// TestTrouble checks that each client sees the right error when the file system
// behind an export gets full, becomes read-only, or takes rights away while a
// file is open. Data written before must remain, and earlier operations must
// work again afterwards.
func TestTrouble(t *testing.T) {
	dir := reachableDir(t)
	onHost(t, "/", fmt.Sprintf("mount -t tmpfs -o size=%d,mode=777 tmpfs %s", fullSize, dir))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	d := serveDir(t, dir) // root is squashed and has no special rights
	s := d.guestSite()
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	s.mountInGuest(t, "/mnt2", s.mountOptions("tcp"))
	m := mountServer{addr: d.rdma, guestSite: s}.mountFUSE(t)
	for name, at := range map[string]struct {
		*testShell
		dir string
	}{
		"Linux, RDMA": {guestShell(t), "/mnt"},
		"Linux, TCP":  {guestShell(t), "/mnt2"},
		"mountrdma":   {hostShell(t), m.point},
	} {
		t.Run(name, func(t *testing.T) {
			at.t = t
			at.mustRun("cd " + at.dir + " && mkdir work && chmod 777 work && cd work")
			fillDisk(at.testShell)
			readOnly(t, at.testShell, dir)
			rightsLost(t, at.testShell, filepath.Join(dir, "work"))
			at.mustRun("cd / && rm -r " + at.dir + "/work")
		})
	}
	m.unmountFUSE()
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
}

// fillDisk writes more than the file system has room for.
func fillDisk(s *testShell) {
	s.mustRun("dd if=/dev/urandom of=before bs=64k count=16 conv=fsync 2>&1 && sha256sum before >sum && sync")
	s.mustFail("No space left on device", "dd if=/dev/zero of=toomuch bs=64k count=512 conv=fsync 2>&1")
	s.mustFail("No space left on device", "dd if=/dev/zero of=toomuch bs=64k seek=300 count=512 conv=fsync,notrunc 2>&1")
	s.mustRun("sha256sum -c sum")
	s.mustRun("rm toomuch && dd if=/dev/urandom of=after bs=64k count=16 conv=fsync 2>&1 && cat after >/dev/null && rm after before sum")
}

// readOnly makes the file system read-only while a file is open for writing.
func readOnly(t *testing.T, s *testShell, dir string) {
	s.mustRun("echo before >open && exec 3>>open && echo more >&3 && sync")
	// The kernel refuses while the daemon itself has a file open for writing.
	require.Eventually(t, func() bool {
		return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") == nil
	}, remountWait, pollEvery)
	s.mustFail("Read-only file system", "dd if=/dev/zero bs=4k count=1 conv=fsync 2>&1 >&3")
	s.mustFail("Read-only file system", "echo new 2>&1 >new")
	s.mustFail("Read-only file system", "rm -f open 2>&1")
	assert.Equal(t, "before\nmore\n", s.mustRun("cat open"))
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
	// Linux caches the result of ACCESS; a process with the file open does not
	// ask again.
	s.mustRun("dd if=/dev/zero bs=4k count=1 conv=fsync 2>&1 >&3; status=$?; exec 3>&-; [ $status = 0 ]")
	onHost(t, dir, "rm work/open")
}

// rightsLost takes the right to write, and then to read, from a process that
// has the file open.
func rightsLost(t *testing.T, s *testShell, dir string) {
	file := filepath.Join(dir, "open")
	onHost(t, dir, "echo before >open && chmod 666 open")
	s.mustRun("exec 3>open && echo written >&3 && sync")
	require.NoError(t, unix.Chmod(file, 0o644))
	s.mustFail("Permission denied", "dd if=/dev/zero bs=4k count=1 conv=fsync 2>&1 >&3")
	assert.Equal(t, "written\n", s.mustRun("cat open"))
	require.NoError(t, unix.Chmod(file, 0o600))
	s.mustFail("Permission denied", "cat open 2>&1")
	s.mustRun("exec 3>&-; :")
	assert.Equal(t, "written\n", onHost(t, dir, "cat open"))
	s.mustRun("rm -f open")
}
