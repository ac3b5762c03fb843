package copytree

import (
	"io/fs"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// modeBits maps the UNIX mode bits that Go keeps elsewhere.
var modeBits = map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}

// fileKinds maps NFS file types to Go's.
var fileKinds = map[nfs3.Type]fs.FileMode{
	nfs3.TypeDir: fs.ModeDir, nfs3.TypeLnk: fs.ModeSymlink, nfs3.TypeBlk: fs.ModeDevice,
	nfs3.TypeChr: fs.ModeDevice | fs.ModeCharDevice, nfs3.TypeSock: fs.ModeSocket, nfs3.TypeFIFO: fs.ModeNamedPipe,
}

// goMode converts permission bits to Go's.
func goMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range modeBits {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

// goTime converts an NFS time to Go's.
func goTime(t nfs3.Time) time.Time { return time.Unix(int64(t.Sec), int64(t.Nsec)) }

// nfsTime converts a Go time to NFS's. A time outside NFS's range becomes the
// nearest in range.
func nfsTime(t time.Time) nfs3.Time {
	sec := min(max(t.Unix(), 0), 1<<32-1)
	return nfs3.Time{Sec: uint32(sec), Nsec: uint32(t.Nanosecond())}
}
