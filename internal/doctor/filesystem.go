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

// Types of file systems, as the list of mounts names them. The daemon knows the same ones.
var (
	// localKinds are of one kernel alone: each writer breaks a lease, and handles hold.
	localKinds = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "nilfs2", "jfs", "bcachefs", "zfs", "tmpfs", "ramfs"}

	// keepingKinds are others whose handles hold whether or not a file is in the kernel's
	// cache, if the kernel opens any.
	keepingKinds = []string{"ceph", "erofs", "gfs2", "iso9660", "ntfs3", "ocfs2", "overlay", "reiserfs", "squashfs", "udf"}
)

func keepsHandles(kind string) bool {
	return slices.Contains(localKinds, kind) || slices.Contains(keepingKinds, kind)
}

// handlesOf says whether the kernel opens the files of a directory by handle, as long as
// they exist.
func handlesOf(dir, kind string) Finding {
	found, remedy := "", "a table in the state directory replaces them; for handles, "
	switch err := handles(dir); {
	case err == nil && keepsHandles(kind):
		return Finding{"handles", OK, dir + " has file handles", ""}
	case err == nil:
		found = "the kernel opens files by handle only while they are in its cache"
		remedy += "export the directory where its disk is, or one of ext4, XFS or Btrfs"
	default:
		found = fmt.Sprintf("the kernel does not open files by handle (%v)", err)
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

// handles tries to open a directory by its file handle.
func handles(dir string) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
	if err != nil {
		return err
	}
	return opens(dir, handle)
}

func opens(dir string, handle unix.FileHandle) error {
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

// leasesOf says whether the leases of a file system tell of all changes. Without a file to
// try, that is not known.
func leasesOf(dir, kind string) (f Finding, known bool) {
	f = Finding{"leases", Warn, "", "export a directory of ext4, XFS or Btrfs; or add exclusive to the export, if nothing but nfsrdmad changes its files"}
	switch err := leases(dir); {
	case errors.Is(err, errNoFile):
		return f, false
	case err != nil && leasesOff():
		f.Found, f.Remedy = "this kernel grants no leases (fs.leases-enable is 0)", "sysctl -w fs.leases-enable=1, and see /etc/sysctl.d"
	case err != nil:
		f.Found = fmt.Sprintf("%s (%s): no leases (%v)", dir, kind, err)
	case !slices.Contains(localKinds, kind):
		f.Found = fmt.Sprintf("%s (%s): some changes break no lease", dir, kind)
	default:
		return Finding{"leases", OK, dir + " has leases", ""}, true
	}
	f.Found += ": clients get no delegations, and see changes by this host's processes late"
	return f, true
}

// leasesOff reports whether the kernel is set to grant no lease.
func leasesOff() bool {
	text, err := os.ReadFile("/proc/sys/fs/leases-enable")
	return err == nil && strings.TrimSpace(string(text)) == "0"
}

// errNoFile reports that no file was there to try a lease.
var errNoFile = errors.New("no file to try")

// leases tries a lease, which ends with this call: on a file that has no name, or else on
// one of the first files of the directory.
func leases(dir string) error {
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
		defer unix.Close(fd)
		return lease(fd, unix.F_WRLCK)
	}
	d, err := os.Open(dir)
	if err != nil {
		return errNoFile
	}
	defer d.Close()
	names, _ := d.ReadDir(maxLooked) // an error leaves those read before
	for _, e := range names {
		if !e.Type().IsRegular() {
			continue
		}
		fd, err := unix.Open(filepath.Join(dir, e.Name()), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		if err = lease(fd, unix.F_RDLCK); err == nil || errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return errNoFile
}

// maxLooked is how many entries of a directory leases looks at.
const maxLooked = 32

func lease(fd, kind int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
	return err
}
