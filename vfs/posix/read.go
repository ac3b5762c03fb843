//go:build linux

package posix

import (
	"context"
	"math"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// openData opens a file for reading or writing. It returns EINVAL if the object has
// no data (RFC 1813, Sections 3.3.6 and 3.3.7).
func (f *FS) openData(c *vfs.Cred, h vfs.Handle, acc access) (*object, *file, error) {
	o, err := f.getObject(h)
	if err != nil {
		return nil, nil, err
	}
	if o.typ != vfs.TypeReg {
		f.putObject(o)
		return nil, nil, unix.EINVAL
	}
	fl, err := f.openAs(o, c, acc)
	if err != nil {
		f.putObject(o)
		return nil, nil, err
	}
	return o, fl, nil
}

func (f *FS) endData(o *object, fl *file) {
	f.closeFile(o, fl)
	f.putObject(o)
}

// Read reads with one system call. A second one gets the attributes, which also
// show whether c may still read.
func (f *FS) Read(_ context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (n int, eof bool, a vfs.MaybeAttr, err error) {
	o, fl, err := f.openData(c, h, accRead)
	if err != nil {
		return 0, false, f.attrOfHandle(h), err
	}
	defer f.endData(o, fl)
	var st unix.Statx_t
	if n, eof, err = f.readFile(o, fl, c, p, off, &st); err != nil {
		return 0, false, f.attrOf(o), err
	}
	return n, eof, f.maybeAttrOf(&st), nil
}

// readFile reads from fl, and sets st to the attributes after the read. If c is not nil, it
// must have permission to read.
func (f *FS) readFile(o *object, fl *file, c *vfs.Cred, p []byte, off uint64, st *unix.Statx_t) (n int, eof bool, err error) {
	for {
		m, err := readAt(fl.FD, p[n:], off+uint64(n))
		f.noteRead(o)
		if err == nil {
			err = f.statOrStale(o, st)
		}
		if err == nil && c != nil {
			err = f.recheckAccess(o, fl, c, st)
		}
		if err != nil {
			return 0, false, err
		}
		n += m
		end := off + uint64(n)
		// The file may have grown after the read met its end.
		eof = end >= st.Size || end < off || m == 0 && n < len(p)
		if n == len(p) || eof {
			return n, eof, nil
		}
	}
}

// readAt reads at off, up to the maximum file size.
func readAt(fd int, p []byte, off uint64) (int, error) {
	if off > math.MaxInt64 || len(p) == 0 {
		return 0, nil
	}
	p = p[:min(uint64(len(p)), math.MaxInt64-off)]
	for {
		n, err := unix.Pread(fd, p, int64(off))
		if err != unix.EINTR {
			return n, err
		}
	}
}

// attrOfHandle returns h's attributes, for an operation that failed before it had an object.
func (f *FS) attrOfHandle(h vfs.Handle) vfs.MaybeAttr {
	o, err := f.getObject(h)
	if err != nil {
		return vfs.MaybeAttr{}
	}
	defer f.putObject(o)
	return f.attrOf(o)
}
