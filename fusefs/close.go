package fusefs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/lockclient"
)

// Release implements fuse.RawFileSystem.
func (m *Mount) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	f := m.files.removeFile(in.Fh)
	if f == nil {
		return
	}
	f.opened()
	for _, owner := range f.lockers.all() { // of flock(2), and of F_OFD_SETLK, for which FLUSH does not come
		m.releaseLocks(cancel, &in.InHeader, f, owner)
	}
	m.closes.end(f)
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	m.release(o, f)
}

// release ends an open file.
func (m *Mount) release(ctx context.Context, f *file) {
	if f.writes {
		m.writerClosed(ctx, f.n)
	}
	m.closed(ctx, f.n)
}

// writerClosed stores data that a mapping left unwritten when the last file
// open for writing is closed.
func (m *Mount) writerClosed(ctx context.Context, n *node) {
	p := n.pend()
	w, taken := p.closed()
	if w == nil {
		return
	}
	defer p.unuse(w)
	if m.sync(ctx, n) != nil {
		return // leave sends the data
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writers == 0 && w.takers == 0 && w.taken == taken {
		p.retireLocked(w)
	}
}

// closed ends an open file of n.
func (m *Mount) closed(ctx context.Context, n *node) {
	if m.table.close(n) {
		m.removeHidden(ctx, n)
	}
}

// Flush implements fuse.RawFileSystem. The kernel calls it when a descriptor is
// closed. The process then loses its locks of the file.
func (m *Mount) Flush(cancel <-chan struct{}, in *fuse.FlushIn) (status fuse.Status) {
	f := m.files.file(in.Fh)
	if f == nil {
		return fuse.OK
	}
	if f.writes {
		status = m.syncFile(cancel, &in.InHeader, f, (*losses).byClose, true)
	}
	m.releaseLocks(cancel, &in.InHeader, f, lockclient.Owner{ID: in.LockOwner})
	if f.lockers.any() {
		m.closes.begin(f)
	}
	return status
}

// Fsync implements fuse.RawFileSystem. It covers data written through any
// descriptor.
func (m *Mount) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	f := m.files.file(in.Fh)
	switch {
	case f == nil:
		return fuse.EBADF
	case f.lockers.lost.Load():
		return fuse.EIO
	}
	return m.syncFile(cancel, &in.InHeader, f, (*losses).byFsync, false)
}

// syncFile puts written data on stable storage and returns a loss that tells
// has to report. closes says that the request is FLUSH.
func (m *Mount) syncFile(cancel <-chan struct{}, h *fuse.InHeader, f *file, tells func(*losses, *told) error, closes bool) fuse.Status {
	o := m.begin(cancel, h)
	defer m.end(o)
	if closes {
		o.isClose()
	}
	if err := m.sync(o, f.n); err != nil {
		return m.fail(err)
	}
	p := f.n.pending.Load()
	if p == nil {
		return fuse.OK
	}
	err := tells(&p.losses, &f.told)
	if err != nil {
		p.losses.purging(o)
	}
	return m.fail(err)
}
