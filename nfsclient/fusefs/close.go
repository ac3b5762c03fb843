package fusefs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient/nlmclient"
)

// Release implements fuse.RawFileSystem.
func (m *Mount) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	f := m.files.removeFile(in.Fh)
	if f == nil {
		return
	}
	f.confirmOpened()
	for _, owner := range f.lockers.listOwners() { // owners from flock(2) and F_OFD_SETLK, which get no FLUSH
		m.releaseLocks(cancel, &in.InHeader, f, owner)
	}
	m.releases.finishRelease(f)
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	m.releaseFile(o, f)
}

// releaseFile closes f, which the kernel has released.
func (m *Mount) releaseFile(ctx context.Context, f *openFile) {
	if f.writes {
		m.closeWriter(ctx, f.n)
	}
	m.closeNode(ctx, f.n)
}

// closeWriter closes an open file that may write. If it was the last, closeWriter
// stores data that a mapping left unwritten.
func (m *Mount) closeWriter(ctx context.Context, n *node) {
	p := n.ensurePending()
	w, taken := p.removeOpenWriter()
	if w == nil {
		return
	}
	defer p.releaseWriter(w)
	if m.syncData(ctx, n) != nil {
		return // drainNodes sends the data
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writers == 0 && w.takers == 0 && w.taken == taken {
		p.retireLocked(w)
	}
}

// closeNode closes an open file of n, and removes n's hidden names after the last.
func (m *Mount) closeNode(ctx context.Context, n *node) {
	if m.table.removeOpen(n) {
		m.removeHidden(ctx, n)
	}
}

// Flush implements fuse.RawFileSystem. The kernel calls it when a descriptor is
// closed. The process then loses its locks on the file.
func (m *Mount) Flush(cancel <-chan struct{}, in *fuse.FlushIn) (status fuse.Status) {
	f := m.files.findFile(in.Fh)
	if f == nil {
		return fuse.OK
	}
	if f.writes {
		status = m.syncFile(cancel, &in.InHeader, f, (*writeErrors).closeError, true)
	}
	m.releaseLocks(cancel, &in.InHeader, f, nlmclient.Owner{ID: in.LockOwner})
	if f.lockers.hasOwners() {
		m.releases.expectRelease(f)
	}
	return status
}

// Fsync implements fuse.RawFileSystem. It covers data written through any
// descriptor.
func (m *Mount) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	f := m.files.findFile(in.Fh)
	switch {
	case f == nil:
		return fuse.EBADF
	case f.lockers.lost.Load():
		return fuse.EIO
	}
	return m.syncFile(cancel, &in.InHeader, f, (*writeErrors).fsyncError, false)
}

// syncFile puts written data on stable storage and returns the loss that unreported
// finds, if any. closes reports that the request is FLUSH.
func (m *Mount) syncFile(cancel <-chan struct{}, h *fuse.InHeader, f *openFile, unreported func(*writeErrors, *reportedSeq) error, closes bool) fuse.Status {
	o := m.beginRequest(cancel, h)
	defer m.endRequest(o)
	if closes {
		o.markClose()
	}
	if err := m.syncData(o, f.n); err != nil {
		return m.errorStatus(err)
	}
	p := f.n.pending.Load()
	if p == nil {
		return fuse.OK
	}
	err := unreported(&p.losses, &f.reported)
	if err != nil {
		p.losses.awaitPurge(o)
	}
	return m.errorStatus(err)
}
