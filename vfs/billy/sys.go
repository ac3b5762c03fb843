package billy

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// SysInfo returns the data of an os.FileInfo of the host, whose Sys is a
// *syscall.Stat_t.
func SysInfo(fi os.FileInfo) (Info, bool) {
	s, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Info{}, false
	}
	rdev := uint64(s.Rdev)
	return Info{
		FileID: s.Ino, Nlink: uint32(s.Nlink), UID: s.Uid, GID: s.Gid,
		Rdev: vfs.Dev{Major: unix.Major(rdev), Minor: unix.Minor(rdev)}, Used: uint64(s.Blocks) * 512,
		Times: true, Atime: statTime(s.Atim), Ctime: statTime(s.Ctim),
	}, true
}

func statTime(t syscall.Timespec) vfs.Time {
	sec, nsec := t.Unix()
	return vfs.Time{Sec: sec, Nsec: uint32(nsec)}
}
