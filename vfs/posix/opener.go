//go:build linux

package posix

import (
	"context"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Opener = (*FS)(nil)

// An openFile is a vfs.File. It keeps its object in the cache, and one of the
// object's files open: other calls by the same caller use that one too, so
// that all learn of lost data.
type openFile struct {
	f    *FS
	acc  access
	cred vfs.Cred
	o    *object
	fl   *file
}

// openCost is how many descriptors an openFile keeps open: that of the object,
// and one for the data.
const openCost = 2

// OpenFile opens a regular file (vfs.Opener). Open files may take half of the
// descriptors that the cache may have.
func (f *FS) OpenFile(_ context.Context, c *vfs.Cred, h vfs.Handle, wanted vfs.OpenAccess) (vfs.Opened, error) {
	o, err := f.object(h)
	if err != nil {
		return vfs.Opened{}, err
	}
	defer f.put(o)
	return f.openObject(o, c, wanted)
}

func (f *FS) openObject(o *object, c *vfs.Cred, wanted vfs.OpenAccess) (vfs.Opened, error) {
	if o.typ != vfs.TypeReg {
		return vfs.Opened{}, unix.EINVAL
	}
	return f.openEach(o, c, wanted, func(acc access) (*file, error) {
		fl, err := f.open(o, c, acc)
		if err != nil {
			return nil, err
		}
		var st unix.Statx_t
		if err = f.stat(o, &st); err == nil {
			err = f.recheck(o, fl, c, &st)
		}
		if err != nil {
			f.closeFile(o, fl)
			return nil, err
		}
		return fl, nil
	})
}

// openEach makes an openFile of each file that open returns.
func (f *FS) openEach(o *object, c *vfs.Cred, wanted vfs.OpenAccess, open func(access) (*file, error)) (out vfs.Opened, err error) {
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
		*each.to = f.newOpenFile(o, fl, c)
	}
	return out, nil
}

// newOpenFile makes an openFile of fl, of which it takes over the reference. It
// returns nil if there is no room.
func (f *FS) newOpenFile(o *object, fl *file, c *vfs.Cred) vfs.File {
	if !f.cache.keepOpen(o) {
		f.closeFile(o, fl)
		return nil
	}
	w := &openFile{f: f, acc: fl.acc, cred: *c, o: o, fl: fl}
	w.cred.Groups = slices.Clone(c.Groups)
	return w
}

// keepOpen keeps o in the cache for an openFile, unless there is no room. The
// caller has a reference to o.
func (c *cache) keepOpen(o *object) bool {
	if c.opened.Add(openCost) > c.limit()/2 {
		c.opened.Add(-openCost)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.gone { // it has lost its name since the caller found it
		c.objs[o.h] = o
		o.dead, o.gone = false, false
		c.link(o)
	}
	o.refs.Add(1)
	o.opens.Add(1)
	return true
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
	defer f.put(o)
	if err != nil {
		return made, vfs.Opened{}, err
	}
	if fd < 0 {
		opened, err := f.openObject(o, c, wanted)
		return made, opened, err
	}
	// The file is made, so a want of descriptors is no error.
	opened, _ := f.openEach(o, c, wanted, func(acc access) (*file, error) { return f.openMade(o, c, fd, acc) })
	return made, opened, nil
}

// openMade opens the file that c has made with the descriptor fd. Its rights are
// for openFiles alone: other calls must check theirs.
func (f *FS) openMade(o *object, c *vfs.Cred, fd int, acc access) (*file, error) {
	flags := unix.O_RDONLY
	if acc == accWrite {
		flags = unix.O_WRONLY
	}
	own, err := f.reopen(fd, flags)
	if err == unix.EACCES { // to a process that is not root, because of the mode
		own, err = dup(fd)
	}
	if err != nil {
		return nil, err
	}
	w := f.whoIs(c)
	o.mu.Lock()
	fl, over := f.addFile(o, &w, acc, own, &perms{})
	o.mu.Unlock()
	f.closeOver(over)
	return fl, nil
}

func (w *openFile) Read(_ context.Context, p []byte, off uint64) (n int, eof bool, err error) {
	if w.acc != accRead {
		return 0, false, unix.EBADF
	}
	var st unix.Statx_t
	return w.f.read(w.o, w.fl, nil, p, off, &st)
}

func (w *openFile) Map(_ context.Context, off uint64, n int) (b *buf.Buf, eof bool, err error) {
	switch {
	case w.acc != accRead:
		return nil, false, unix.EBADF
	case !mappable(off, n):
		return nil, false, nil
	}
	run := w.o.reads(off, n)
	if n < run.least() {
		return nil, false, nil
	}
	w.f.cache.retain(w.o)
	if b, eof, _, err = w.f.lend(w.o, w.fl, nil, run, off, n); b == nil {
		w.f.put(w.o)
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
	return w.f.disk.commit(w.fl)
}

func (w *openFile) SetSize(_ context.Context, size uint64) error {
	if w.acc != accWrite {
		return unix.EBADF
	}
	if err := w.resize(size); err != nil || w.f.volatile {
		return err
	}
	return late(w.f.disk.file(w.fl))
}

func (w *openFile) resize(size uint64) error {
	f, o := w.f, w.o
	var st unix.Statx_t
	if err := f.beginChange(o, &st); err != nil {
		return err
	}
	defer f.endChange(o)
	err := f.as(&w.cred, func() error { return f.ftruncate(w.fl.fd, size) })
	f.changed(o, &st, err == nil)
	return err
}

// Close lets go of the object. A removed one ends with its last openFile.
func (w *openFile) Close() {
	f, o := w.f, w.o
	f.closeFile(o, w.fl)
	f.cache.opened.Add(-openCost)
	f.cache.mu.Lock()
	last := o.opens.Add(-1) == 0
	f.cache.mu.Unlock()
	if last {
		var st unix.Statx_t
		_ = f.stat(o, &st)
	}
	f.put(o)
}
