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

// A failingDisk is a local file system whose machine can fail: bytes that are only in
// the page cache are then lost. The disk itself is a file in memory.
type failingDisk struct {
	t     *testing.T
	dir   string // its mount point
	kind  string // the file system's type
	image string
	loop  string
}

// newDisk makes an empty disk with ext4, mounted until the test ends.
func newDisk(t *testing.T) *failingDisk { return newDiskOf(t, "ext4") }

// makers make file systems.
var makers = map[string]string{"ext4": "mkfs.ext4 -q -E lazy_itable_init=0", "xfs": "mkfs.xfs -q", "btrfs": "mkfs.btrfs -q"}

// newDiskOf is newDisk for a kind of file system.
func newDiskOf(t *testing.T, kind string) *failingDisk {
	needRoot(t)
	d := &failingDisk{t: t, kind: kind, image: filepath.Join(Served(t), "image"), dir: reachableDir(t)}
	onHost(t, "/", fmt.Sprintf("truncate -s %d %[2]s && %[3]s %[2]s", diskSize, d.image, makers[kind]))
	d.mountImage()
	t.Cleanup(func() { _, _ = tryOnHost("/", d.umountCommand()) })
	return d
}

// mountImage mounts the image on a loop device of the host, until umount.
func (d *failingDisk) mountImage() {
	d.t.Helper()
	out := onHost(d.t, "/", fmt.Sprintf("losetup --find --show %s", d.image))
	_, err := fmt.Sscan(out, &d.loop)
	require.NoError(d.t, err, out)
	onHost(d.t, "/", fmt.Sprintf("mount -t %s -o %s %s %s", d.kind, mountOptions(d.kind), d.loop, d.dir))
}

// mountOptions returns the options for a kind of file system. XFS otherwise gives
// files that grow more storage than they need, as much as the timing of the writes
// leads it to.
func mountOptions(kind string) string {
	if kind == "xfs" {
		return "allocsize=4k"
	}
	return "rw"
}

func (d *failingDisk) umountCommand() string {
	return fmt.Sprintf("umount %s; losetup -d %s", d.dir, d.loop)
}

// failAndRestart simulates a failure of the machine and its next start, then calls look.
// It returns the number of bytes that the lengths of files have lost. The file
// system must not be in use.
func (d *failingDisk) failAndRestart(look func()) (lost int64) {
	d.t.Helper()
	before := d.totalSize()
	// After the failure the machine finds the data that the disk has now.
	onHost(d.t, "/", fmt.Sprintf("cp --sparse=always %[1]s %[1]s.found && %[2]s && mv %[1]s.found %[1]s", d.image, d.umountCommand()))
	d.mountImage()
	look()
	return before - d.totalSize()
}

// totalSize returns the total length of all files.
func (d *failingDisk) totalSize() (all int64) {
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
