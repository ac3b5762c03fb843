package billy

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// getFile is like getObject, but h must be a regular file: RFC 1813, Section 3.3.6, requires
// NFS3ERR_INVAL for others.
func (f *FS) getFile(h vfs.Handle) (object, error) {
	o, err := f.getObject(h)
	if err == nil && o.attr.Type != vfs.TypeReg {
		err = syscall.EINVAL
	}
	return o, err
}

// Read opens the file, reads into p, and closes it.
func (f *FS) Read(_ context.Context, _ *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	o, err := f.getFile(h)
	if err != nil {
		return 0, false, vfs.MaybeAttr{OK: o.n != nil, Attr: o.attr}, err
	}
	if off >= o.attr.Size {
		return 0, true, maybeAttrOf(&o.attr), nil
	}
	n, end, err := f.readAt(o.name, p[:min(uint64(len(p)), o.attr.Size-off)], int64(off))
	return n, end || off+uint64(n) >= o.attr.Size, maybeAttrOf(&o.attr), err
}

// readAt fills p, or less if the file was truncated concurrently.
func (f *FS) readAt(name string, p []byte, off int64) (n int, end bool, err error) {
	if len(p) == 0 {
		return 0, false, nil
	}
	r, err := f.fs.Open(name)
	if err != nil {
		return 0, false, f.errnoOf(err)
	}
	defer r.Close()
	for n < len(p) {
		m, err := r.ReadAt(p[n:], off+int64(n))
		n += m
		switch {
		case errors.Is(err, io.EOF):
			return n, n < len(p), nil
		case err != nil:
			return n, false, f.errnoOf(err)
		case m == 0:
			return n, false, io.ErrNoProgress
		}
	}
	return n, false, nil
}

// Write opens the file, writes p, and closes it.
func (f *FS) Write(_ context.Context, _ *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := f.getFile(h)
	w := o.unchangedWCC()
	switch end := off + uint64(len(p)); {
	case err != nil:
		return 0, 0, w, err
	case f.readOnly:
		return 0, 0, w, syscall.EROFS
	case end < off || end > uint64(f.o.MaxFileSize):
		return 0, 0, w, syscall.EFBIG
	case len(p) == 0:
		return 0, how, w, nil
	}
	n, done, err := f.writeAt(o.name, p, int64(off), how)
	f.table.markChanged(o.n)
	w.After = f.attrAfterChange(&o)
	return n, done, w, err
}

func (f *FS) writeAt(name string, p []byte, off int64, how vfs.Stable) (n int, done vfs.Stable, err error) {
	w, err := f.fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return 0, 0, f.errnoOf(err)
	}
	n, err = writeAll(w, p, off)
	var lost error
	if n > 0 {
		done, lost = f.makeStable(w, how)
	}
	if e := w.Close(); lost == nil {
		lost = e
	}
	if lost != nil { // nothing is as stable as requested
		n, err = 0, lost
	}
	return n, done, f.errnoOf(err)
}

func writeAll(w gobilly.File, p []byte, off int64) (n int, err error) {
	if _, err := w.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	for n < len(p) {
		m, err := w.Write(p[n:])
		n += m
		switch {
		case err != nil:
			return n, err
		case m == 0:
			return n, io.ErrShortWrite
		}
	}
	return n, nil
}

// Commit syncs the whole file, if files can be synced.
func (f *FS) Commit(_ context.Context, _ *vfs.Cred, h vfs.Handle, _ uint64, _ uint32) (vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := f.getFile(h)
	w := o.unchangedWCC()
	if err != nil {
		return w, err
	}
	r, err := f.fs.Open(o.name)
	if err != nil {
		return w, f.errnoOf(err)
	}
	defer r.Close()
	return w, f.errnoOf(f.syncFile(r))
}

// unchangedWCC returns an object's WCC data before a change, or none if there is no object.
func (o *object) unchangedWCC() vfs.WCC {
	if o.n == nil {
		return vfs.WCC{}
	}
	return vfs.WCC{Before: preAttrOf(&o.attr), After: maybeAttrOf(&o.attr)}
}
