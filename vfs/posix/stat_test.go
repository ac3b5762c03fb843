//go:build linux

package posix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// TestStatObject compares the attributes of objects with those of statx(2), before and
// after changes that show in all of them.
func TestStatObject(t *testing.T) {
	vfstest.NeedRoot(t)
	s := newExportedDir(t, "/dev/shm", Options{})
	f, dir := s.open(t), s.path()
	require.True(t, f.traits.attrs, "a file system where fstat(2) serves")
	require.NoError(t, unix.Mkdir(dir+"/dir", 0o751))
	require.NoError(t, unix.Symlink("target", dir+"/link"))
	require.NoError(t, unix.Mknod(dir+"/fifo", unix.S_IFIFO|0o640, 0))
	require.NoError(t, unix.Mknod(dir+"/char", unix.S_IFCHR|0o640, int(unix.Mkdev(1234, 567890))))
	fd, err := unix.Open(dir+"/file", unix.O_CREAT|unix.O_WRONLY, 0o604)
	require.NoError(t, err)
	defer closeFD(fd)
	check := func(name string) {
		t.Helper()
		o, _, err := f.lookupName(&vfs.Cred{}, f.root, name)
		require.NoError(t, err)
		defer f.putObject(o)
		var got, want unix.Statx_t
		require.NoError(t, f.statObject(o, &got))
		require.NoError(t, statFD(o.fd, &want))
		want.Attributes, want.Attributes_mask = 0, 0
		want.Dio_mem_align, want.Dio_offset_align = 0, 0
		assert.Equal(t, want, got, name)
	}
	names := []string{"dir", "link", "fifo", "char", "file"}
	for _, name := range names {
		check(name)
	}
	_, err = unix.Pwrite(fd, []byte("data"), 100_000)
	require.NoError(t, err)
	require.NoError(t, unix.Link(dir+"/file", dir+"/dir/other"))
	for _, name := range names {
		times := []unix.Timespec{{Sec: -1, Nsec: 999_999_999}, {Sec: 5e9, Nsec: 1}}
		require.NoError(t, unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/"+name, times, unix.AT_SYMLINK_NOFOLLOW))
		require.NoError(t, unix.Lchown(dir+"/"+name, 4_000_000_000, 1001))
		check(name)
	}
}
