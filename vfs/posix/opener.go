//go:build linux

package posix

import (
	"context"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Opener = (*FS)(nil)

// An openFile is a vfs.File. It keeps its object in the cache, and one of the object's files open:
// other calls by the same caller use that one too, so that all see lost data.
type openFile struct {
	f    *FS
	acc  access
	cred vfs.Cred
	o    *object
	fl   *file

	share sharePlace
}

// maxOpenCost is the maximum number of descriptors that an openFile keeps open: the object's, and one
// for the data. openFiles of one object, or of one of its files, share them.
const maxOpenCost = 2

// OpenFile opens a regular file (vfs.Opener). Open files may take half of the descriptors that the
// cache may have, and each client has its share.
func (f *FS) OpenFile(ctx context.Context, c *vfs.Cred, h vfs.Handle, wanted vfs.OpenAccess) (vfs.Opened, error) {
	o, err := f.getObject(h)
	if err != nil {
		return vfs.Opened{}, err
	}
	defer f.putObject(o)
	return f.openObject(ctx, o, c, wanted)
}

func (f *FS) openObject(ctx context.Context, o *object, c *vfs.Cred, wanted vfs.OpenAccess) (vfs.Opened, error) {
	if o.typ != vfs.TypeReg {
		return vfs.Opened{}, unix.EINVAL
	}
	return f.openEach(ctx, o, c, wanted, func(acc access) (*file, error) {
		fl, err := f.openAs(o, c, acc)
		if err != nil {
			return nil, err
		}
		var st unix.Statx_t
		if err = f.statOrStale(o, &st); err == nil {
			err = f.recheckAccess(o, fl, c, &st)
		}
		if err != nil {
			f.closeFile(o, fl)
			return nil, err
		}
		return fl, nil
	})
}

// openEach creates an openFile for each file that open returns.
func (f *FS) openEach(ctx context.Context, o *object, c *vfs.Cred, wanted vfs.OpenAccess, open func(access) (*file, error)) (out vfs.Opened, err error) {
	for _, each := range []struct {
		bit vfs.OpenAccess
		acc access
		to  *vfs.File
	}{{vfs.OpenRead, accRead, &out.Read}, {vfs.OpenWrite, accWrite, &out.Write}} {
		if wanted&each.bit == 0 {
			continue
		}
		fl, err := open(each.acc)
		if err != nil {
			out.Close()
			return vfs.Opened{}, err
		}
		*each.to = f.newOpenFile(ctx, o, fl, c)
	}
	return out, nil
}

// newOpenFile creates an openFile, which takes over the reference to fl. It returns nil if there
// are too many.
func (f *FS) newOpenFile(ctx context.Context, o *object, fl *file, c *vfs.Cred) vfs.File {
	share, ok := takeShare(vfs.ClientOf(ctx), f.cache.shares.opens)
	if ok && !f.cache.keepOpen(o, fl) {
		share.releasePlace()
		ok = false
	}
	if !ok {
		f.closeFile(o, fl)
		return nil
	}
	w := &openFile{f: f, acc: fl.acc, cred: *c, o: o, fl: fl, share: share}
	w.cred.Groups = slices.Clone(c.Groups)
	o.mu.Lock()
	fl.opens++
	o.mu.Unlock()
	return w
}

// keepOpen keeps o in the cache, and its file fl open, for an openFile, unless there are too many. The
// caller has a reference to o.
func (c *cache) keepOpen(o *object, fl *file) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reserveFDs(&c.opened, unheldFDs(o, fl), c.max/2) {
		return false
	}
	if o.removedFromFS { // it has lost its name since the caller found it
		c.objs[o.h] = o
		o.removedFromCache, o.removedFromFS = false, false
		c.linkObject(o)
	}
	o.refs.Add(1)
	o.opens.Add(1)
	fl.holders++
	return true
}

// unheldFDs returns the number of descriptors of o and its file fl that no openFile holds.
// cache.mu is held.
func unheldFDs(o *object, fl *file) (n int64) {
	if o.opens.Load() == 0 {
		n++
	}
	if fl.holders == 0 {
		n++
	}
	return n
}

// CreateFile creates and opens a file (vfs.Opener).
func (f *FS) CreateFile(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow, wanted vfs.OpenAccess) (
	vfs.Made, vfs.Opened, error,
) {
	fd := -1
	m := f.fileMaker(c, name, how)
	m.open = &fd
	defer func() {
		if fd >= 0 {
			closeFD(fd)
		}
	}()
	o, made, err := f.makeObject(ctx, c, dir, m)
	if o == nil {
		return made, vfs.Opened{}, err
	}
	defer f.putObject(o)
	if err != nil {
		return made, vfs.Opened{}, err
	}
	if fd < 0 {
		opened, err := f.openObject(ctx, o, c, wanted)
		return made, opened, err
	}
	// The file exists, so a lack of descriptors is no error.
	opened, _ := f.openEach(ctx, o, c, wanted, func(acc access) (*file, error) { return f.openMade(o, c, fd, acc) })
	return made, opened, nil
}

// openMade opens the file that c has made with the descriptor fd. Its rights are
// for openFiles alone: other calls must check theirs.
func (f *FS) openMade(o *object, c *vfs.Cred, fd int, acc access) (*file, error) {
	flags := unix.O_RDONLY
	if acc == accWrite {
		flags = f.writeFlags()
	}
	isDup := false
	own, err := f.reopenFD(fd, flags)
	if err == unix.EACCES { // to a process that is not root, because of the mode
		isDup = true
		own, err = dupFD(fd)
	}
	if err != nil {
		return nil, err
	}
	w := f.credKeyOf(c)
	o.mu.Lock()
	fl, evicted := f.addFile(o, &w, acc, own, &perms{})
	fl.isDup = fl.isDup || isDup
	o.mu.Unlock()
	f.closeEvicted(evicted, acc)
	return fl, nil
}

func (w *openFile) Read(_ context.Context, p []byte, off uint64) (n int, eof bool, err error) {
	if w.acc != accRead {
		return 0, false, unix.EBADF
	}
	var st unix.Statx_t
	return w.f.readFile(w.o, w.fl, nil, p, off, &st)
}

func (w *openFile) Map(_ context.Context, off uint64, n int) (b *buf.Buf, eof bool, err error) {
	switch {
	case w.acc != accRead:
		return nil, false, unix.EBADF
	case !w.f.isMappable(off, n):
		return nil, false, nil
	}
	run := w.o.addRead(off, n)
	if n < run.minLent() {
		return nil, false, nil
	}
	w.f.cache.retainObject(w.o)
	if b, eof, _, err = w.f.lendMapping(w.o, w.fl, nil, run, off, n); b == nil {
		w.f.putObject(w.o)
	}
	return b, eof, err
}

func (w *openFile) Write(_ context.Context, p []byte, off uint64, how vfs.Stable) (n int, done vfs.Stable, err error) {
	if w.acc != accWrite {
		return 0, how, unix.EBADF
	}
	n, done, _, err = w.f.writeStable(w.o, w.fl, &w.cred, false, p, off, how)
	return n, done, err
}

func (w *openFile) Commit(context.Context, uint64, uint32) error {
	if w.acc != accWrite {
		return unix.EBADF
	}
	return w.f.disk.SyncInode(&w.fl.File)
}

func (w *openFile) SetSize(_ context.Context, size uint64) error {
	if w.acc != accWrite {
		return unix.EBADF
	}
	if err := w.setSize(size); err != nil || w.f.traits.volatile {
		return err
	}
	return hideTemporary(w.f.disk.SyncFile(&w.fl.File))
}

func (w *openFile) setSize(size uint64) error {
	f, o := w.f, w.o
	var st unix.Statx_t
	if err := f.beginChange(o, &st); err != nil {
		return err
	}
	defer f.endChange(o)
	err := f.runAs(&w.cred, func() error { return f.truncateFD(w.fl.FD, size) })
	f.attrAfterChange(o, &st, err == nil)
	return err
}

// Close closes the File. If its descriptor has locks, the last File stays open, and counted, until
// these are gone or have another descriptor.
func (w *openFile) Close() {
	fl := w.fl
	w.o.mu.Lock()
	fl.opens--
	stays := fl.lent && fl.opens == 0 && fl.closed == nil
	if stays {
		fl.closed = w
	}
	w.o.mu.Unlock()
	if !stays {
		w.release()
	}
}

// release releases the object. A removed one is freed with its last openFile.
func (w *openFile) release() {
	f, o := w.f, w.o
	f.closeFile(o, w.fl)
	f.cache.mu.Lock()
	last := o.opens.Add(-1) == 0
	w.fl.holders--
	f.cache.releaseFDs(&f.cache.opened, unheldFDs(o, w.fl))
	f.cache.mu.Unlock()
	w.share.releasePlace()
	if last {
		var st unix.Statx_t
		_ = f.statOrStale(o, &st)
	}
	f.putObject(o)
}
