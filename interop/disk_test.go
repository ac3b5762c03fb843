//go:build interop

package interop

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const diskSize = 1 << 30 // bytes

// A disk is an ext4 file system whose machine can fail: bytes that are in the page
// cache alone are lost then. The disk itself is a file in memory.
type disk struct {
	t     *testing.T
	dir   string // where it is mounted
	image string
	loop  string
}

// newDisk makes an empty one, mounted until the test ends.
func newDisk(t *testing.T) *disk {
	needRoot(t)
	d := &disk{t: t, image: filepath.Join(served(t), "image"), dir: reachable(t)}
	onHost(t, "/", fmt.Sprintf("truncate -s %d %[2]s && mkfs.ext4 -q -E lazy_itable_init=0 %[2]s", diskSize, d.image))
	d.mount()
	t.Cleanup(func() { _, _ = tryOnHost("/", d.umount()) })
	return d
}

// mount mounts the image. A loop device of the host's is the disk's till umount.
func (d *disk) mount() {
	d.t.Helper()
	out := onHost(d.t, "/", fmt.Sprintf("losetup --find --show %s", d.image))
	_, err := fmt.Sscan(out, &d.loop)
	require.NoError(d.t, err, out)
	onHost(d.t, "/", fmt.Sprintf("mount -t ext4 %s %s", d.loop, d.dir))
}

func (d *disk) umount() string { return fmt.Sprintf("umount %s; losetup -d %s", d.dir, d.loop) }

// fail is what a failure of the machine does, and its next start. It returns how many
// bytes the files have lost in their lengths. Nobody has the file system in use. Then
// look is called.
func (d *disk) fail(look func()) (lost int64) {
	d.t.Helper()
	before := d.size()
	// What the disk has got by now is what the machine finds on it later.
	onHost(d.t, "/", fmt.Sprintf("cp --sparse=always %[1]s %[1]s.found && %[2]s && mv %[1]s.found %[1]s", d.image, d.umount()))
	d.mount()
	look()
	return before - d.size()
}

// size is the length of all files.
func (d *disk) size() (all int64) {
	require.NoError(d.t, filepath.WalkDir(d.dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			all += info.Size()
		}
		return err
	}))
	return all
}
