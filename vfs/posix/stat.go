//go:build linux

package posix

import "golang.org/x/sys/unix"

// statObject reads o's attributes.
func (f *FS) statObject(o *object, st *unix.Statx_t) error {
	st.Mask, st.Ino, st.Btime = o.mask, o.ino, o.birth
	r := &f.rootStat // objects are exported
	st.Dev_major, st.Dev_minor, st.Mnt_id = r.Dev_major, r.Dev_minor, r.Mnt_id
	return f.statAgain(o.fd, st)
}

// statAgain reads again the attributes of the object open as fd. st has earlier ones, and keeps
// what only statx(2) returns: it does not change on local file systems. fstat(2) takes a quarter of
// the instructions, because it has no path.
func (f *FS) statAgain(fd int, st *unix.Statx_t) error {
	if !f.traits.attrs || st.Mask&unix.STATX_BASIC_STATS != unix.STATX_BASIC_STATS {
		return statFD(fd, st)
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return err
	}
	st.Mode, st.Nlink, st.Uid, st.Gid = uint16(s.Mode), uint32(s.Nlink), s.Uid, s.Gid
	st.Size, st.Blocks, st.Blksize = uint64(s.Size), uint64(s.Blocks), uint32(s.Blksize)
	st.Rdev_major, st.Rdev_minor = unix.Major(uint64(s.Rdev)), unix.Minor(uint64(s.Rdev))
	st.Atime, st.Mtime, st.Ctime = statxTime(s.Atim), statxTime(s.Mtim), statxTime(s.Ctim)
	return nil
}

func statxTime(t unix.Timespec) unix.StatxTimestamp {
	sec, nsec := t.Unix()
	return unix.StatxTimestamp{Sec: sec, Nsec: uint32(nsec)}
}
