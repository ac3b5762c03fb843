package fusefs

import "github.com/hanwen/go-fuse/v2/fuse"

// Release implements fuse.RawFileSystem.
func (m *Mount) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	f := m.files.removeFile(in.Fh)
	if f == nil {
		return
	}
	f.opened()
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	if f.writes {
		m.writerClosed(o, f.n)
	}
	m.closed(o, f.n)
}

// writerClosed sends what a mapping left when the last file that may write is
// closed.
func (m *Mount) writerClosed(o *op, n *node) {
	p := &n.pending
	p.mu.Lock()
	p.writers--
	w := p.w
	if p.writers > 0 {
		w = nil
	}
	p.mu.Unlock()
	if w == nil {
		return
	}
	if err := m.sync(o, n); err != nil {
		m.complain(err)
	}
	p.mu.Lock()
	again := p.writers > 0
	p.mu.Unlock()
	if !again {
		p.retire(w)
	}
}

// closed ends an open file of n.
func (m *Mount) closed(o *op, n *node) {
	if m.table.close(n) {
		m.removeHidden(o, n)
	}
}

// Flush implements fuse.RawFileSystem: a descriptor is closed.
func (m *Mount) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	f := m.files.file(in.Fh)
	if f == nil || !f.writes {
		return fuse.OK
	}
	return m.syncFile(cancel, &in.InHeader, f)
}

// Fsync implements fuse.RawFileSystem: by any descriptor, for all that was
// written by any.
func (m *Mount) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	f := m.files.file(in.Fh)
	if f == nil {
		return fuse.EBADF
	}
	return m.syncFile(cancel, &in.InHeader, f)
}

func (m *Mount) syncFile(cancel <-chan struct{}, h *fuse.InHeader, f *file) fuse.Status {
	o := m.begin(cancel, h)
	defer m.end(o)
	return m.fail(m.sync(o, f.n))
}
