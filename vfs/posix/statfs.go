//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// StatFS returns the sizes of the file system. AvailBytes is the space
// available to users other than root.
func (f *FS) StatFS(_ context.Context, _ *vfs.Cred, h vfs.Handle) (s vfs.FSStat, a vfs.MaybeAttr, err error) {
	st, a, err := f.statHostFS(h)
	if err != nil {
		return s, a, err
	}
	unit := uint64(st.Frsize)
	if unit == 0 {
		unit = uint64(st.Bsize)
	}
	return vfs.FSStat{
		TotalBytes: st.Blocks * unit, FreeBytes: st.Bfree * unit, AvailBytes: st.Bavail * unit,
		TotalFiles: st.Files, FreeFiles: st.Ffree, AvailFiles: st.Ffree,
	}, a, nil
}

// linkMax is an object's maximum link count, for known file system types. defaultLinkMax is a low
// value for the others.
var linkMax = map[int64]uint32{
	unix.EXT4_SUPER_MAGIC:  65000,
	unix.XFS_SUPER_MAGIC:   1<<31 - 1,
	unix.BTRFS_SUPER_MAGIC: 65535,
	unix.F2FS_SUPER_MAGIC:  32000,
	unix.TMPFS_MAGIC:       1<<31 - 1,
}

const defaultLinkMax = 127

func (f *FS) PathConf(_ context.Context, _ *vfs.Cred, h vfs.Handle) (p vfs.PathConf, a vfs.MaybeAttr, err error) {
	st, a, err := f.statHostFS(h)
	if err != nil {
		return p, a, err
	}
	p = vfs.PathConf{
		LinkMax: defaultLinkMax, NameMax: uint32(st.Namelen),
		NoTrunc: true, ChownRestricted: true, CasePreserving: true,
	}
	if n, ok := linkMax[int64(st.Type)]; ok {
		p.LinkMax = n
	}
	return p, a, nil
}

func (f *FS) statHostFS(h vfs.Handle) (st unix.Statfs_t, a vfs.MaybeAttr, err error) {
	o, err := f.getObject(h)
	if err != nil {
		return st, a, err
	}
	defer f.putObject(o)
	_, err = retryEINTR(func() (int, error) { return 0, unix.Fstatfs(o.fd, &st) })
	return st, f.attrOf(o), err
}
