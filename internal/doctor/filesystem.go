package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Types of file systems by their names in the list of mounts. The daemon has the same lists.
var (
	// localKinds are used by one kernel only: every change breaks leases, and handles stay valid.
	localKinds = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "nilfs2", "jfs", "bcachefs", "zfs", "tmpfs", "ramfs"}

	// keepingKinds are others whose handles stay valid when a file leaves the kernel's cache,
	// if the kernel can open handles at all.
	keepingKinds = []string{"ceph", "erofs", "gfs2", "iso9660", "ntfs3", "ocfs2", "overlay", "reiserfs", "squashfs", "udf"}
)

// keepsHandles reports whether handles stay valid when a file leaves the kernel's cache.
func keepsHandles(kind string) bool {
	return slices.Contains(localKinds, kind) || slices.Contains(keepingKinds, kind)
}

// checkHandles checks whether the kernel can open the files of a directory by handle as long
// as they exist.
func checkHandles(dir, kind string) Finding {
	found, remedy := "", "the daemon uses a table in the state directory instead; to get handles, "
	switch err := tryHandle(dir); {
	case err == nil && keepsHandles(kind):
		return Finding{"handles", OK, dir + " has file handles", ""}
	case err == nil:
		found = "the kernel opens files by handle only while they are in its cache"
		remedy += "export the directory on the host that has its disk, or use ext4, XFS or Btrfs"
	default:
		found = fmt.Sprintf("the kernel cannot open files by handle (%v)", err)
		switch {
		case kind == "overlay":
			remedy += "mount it with -o index=on,nfs_export=on"
		case errors.Is(err, unix.EPERM):
			remedy += "run as root, with CAP_DAC_READ_SEARCH"
		default:
			remedy += "export a directory of ext4, XFS or Btrfs"
		}
	}
	return Finding{"handles", Warn, fmt.Sprintf("%s (%s): %s", dir, kind, found), remedy}
}

// tryHandle opens a directory by its file handle.
func tryHandle(dir string) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
	if err != nil {
		return err
	}
	return openHandle(dir, handle)
}

// openHandle opens a file handle in the file system of dir.
func openHandle(dir string, handle unix.FileHandle) error {
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	fd, err := unix.OpenByHandleAt(at, handle, unix.O_PATH|unix.O_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// checkLeases checks whether all changes in a file system break leases. known is false if
// there is no file to try.
func checkLeases(dir, kind string) (f Finding, known bool) {
	f = Finding{"leases", Warn, "", "export a directory of ext4, XFS or Btrfs; or add exclusive to the export, if only nfsrdmad changes its files"}
	switch err := tryLease(dir); {
	case errors.Is(err, errNoFile):
		return f, false
	case err != nil && leasesOff():
		f.Found, f.Remedy = "this kernel grants no leases (fs.leases-enable is 0)", "sysctl -w fs.leases-enable=1, and see /etc/sysctl.d"
	case err != nil:
		f.Found = fmt.Sprintf("%s (%s): leases are not supported (%v)", dir, kind, err)
	case !slices.Contains(localKinds, kind):
		f.Found = fmt.Sprintf("%s (%s): some changes break no lease", dir, kind)
	default:
		return Finding{"leases", OK, dir + " supports leases", ""}, true
	}
	f.Found += ": clients get no delegations, and notice changes by this host's processes late"
	return f, true
}

// leasesOff reports whether leases are disabled in the kernel.
func leasesOff() bool {
	text, err := os.ReadFile("/proc/sys/fs/leases-enable")
	return err == nil && strings.TrimSpace(string(text)) == "0"
}

// errNoFile reports that there is no file to try a lease on.
var errNoFile = errors.New("no file to try")

// tryLease takes a lease for the time of this call: on an unnamed file, or else on one of the
// directory's first files.
func tryLease(dir string) error {
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
		defer unix.Close(fd)
		return takeLease(fd, unix.F_WRLCK)
	}
	d, err := os.Open(dir)
	if err != nil {
		return errNoFile
	}
	defer d.Close()
	names, _ := d.ReadDir(maxTriedFiles) // after an error, names has those read before
	for _, e := range names {
		if !e.Type().IsRegular() {
			continue
		}
		fd, err := unix.Open(filepath.Join(dir, e.Name()), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		if err = takeLease(fd, unix.F_RDLCK); err == nil || errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return errNoFile
}

// maxTriedFiles is how many directory entries tryLease looks at.
const maxTriedFiles = 32

// takeLease takes a lease on an open file.
func takeLease(fd, kind int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
	return err
}
