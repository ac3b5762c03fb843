package mem

import (
	"context"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Opener = (*FS)(nil)

// An openFile is a vfs.File.
type openFile struct {
	f     *FS
	n     *node
	cred  vfs.Cred
	write bool
}

// OpenFile opens a file (vfs.Opener).
func (f *FS) OpenFile(_ context.Context, c *vfs.Cred, h vfs.Handle, access vfs.OpenAccess) (vfs.Opened, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.fileOf(h)
	if err == nil {
		err = n.mayOpen(c, access)
	}
	if err != nil {
		return vfs.Opened{}, err
	}
	return f.openNode(n, c, access), nil
}

func (n *node) mayOpen(c *vfs.Cred, access vfs.OpenAccess) error {
	if access&vfs.OpenRead != 0 {
		if err := n.mayRead(c); err != nil {
			return err
		}
	}
	if access&vfs.OpenWrite != 0 {
		return n.mayWrite(c)
	}
	return nil
}

// openNode opens a file without checking c's rights.
func (f *FS) openNode(n *node, c *vfs.Cred, access vfs.OpenAccess) (out vfs.Opened) {
	cred := *c
	cred.Groups = slices.Clone(c.Groups)
	if access&vfs.OpenRead != 0 {
		n.opens++
		out.Read = &openFile{f, n, cred, false}
	}
	if access&vfs.OpenWrite != 0 {
		n.opens++
		out.Write = &openFile{f, n, cred, true}
	}
	return out
}

// CreateFile creates and opens a file (vfs.Opener).
func (f *FS) CreateFile(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow, access vfs.OpenAccess) (
	vfs.Made, vfs.Opened, error,
) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.nextID
	n, made, err := f.createNode(c, dir, name, how)
	switch {
	case err != nil:
		return made, vfs.Opened{}, err
	case n.attr.Type != vfs.TypeReg:
		return made, vfs.Opened{}, syscall.EINVAL
	case n.attr.FileID <= last: // it was there before
		if err := n.mayOpen(c, access); err != nil {
			return made, vfs.Opened{}, err
		}
	}
	return made, f.openNode(n, c, access), nil
}

func (w *openFile) Read(_ context.Context, p []byte, off uint64) (n int, eof bool, err error) {
	if w.write {
		return 0, false, syscall.EBADF
	}
	w.f.mu.RLock()
	defer w.f.mu.RUnlock()
	n, eof = w.n.readPages(p, off)
	return n, eof, nil
}

// Map lends nothing.
func (w *openFile) Map(context.Context, uint64, int) (*buf.Buf, bool, error) { return nil, false, nil }

func (w *openFile) Write(_ context.Context, p []byte, off uint64, _ vfs.Stable) (n int, done vfs.Stable, err error) {
	if !w.write {
		return 0, vfs.FileSync, syscall.EBADF
	}
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	n, err = w.f.writeAs(w.n, &w.cred, p, off)
	return n, vfs.FileSync, err
}

// Commit has nothing to do.
func (w *openFile) Commit(context.Context, uint64, uint32) error {
	if !w.write {
		return syscall.EBADF
	}
	return nil
}

func (w *openFile) SetSize(_ context.Context, size uint64) error {
	switch {
	case !w.write:
		return syscall.EBADF
	case size > maxFileSize:
		return syscall.EFBIG
	}
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	w.n.exclusive = false
	w.f.setAttr(w.n, &w.cred, &vfs.SetAttr{Size: &size})
	return nil
}

// Close frees a removed file with its last openFile.
func (w *openFile) Close() {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	w.n.opens--
	w.f.freeUnused(w.n)
}
