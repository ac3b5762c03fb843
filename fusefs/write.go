package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Write implements fuse.RawFileSystem.
func (m *Mount) Write(cancel <-chan struct{}, in *fuse.WriteIn, p []byte) (uint32, fuse.Status) {
	f := m.files.file(in.Fh)
	switch {
	case f == nil:
		return 0, fuse.EBADF
	case f.lockers.lost.Load():
		return 0, fuse.EIO
	}
	m.writeBuffers.used(p)
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	o.mayChange(f.n)
	write, mapped := m.writeBehind, in.WriteFlags&fuse.WRITE_CACHE != 0
	if m.cfg.Sync || in.Flags&unix.O_DIRECT != 0 && !mapped {
		write = m.writeThrough
	} else if p := f.n.pending.Load(); p != nil && !mapped {
		if err := p.losses.byWrite(&f.told); err != nil {
			return 0, m.fail(err)
		}
	}
	off := in.Offset
	if in.Flags&unix.O_APPEND != 0 && !mapped && f.n.locked.Load() {
		var err error
		if off, err = m.endOf(o, f.n); err != nil {
			return 0, m.failOn(f.n, err)
		}
	}
	n, err := write(o, f, p, off)
	if off != in.Offset {
		m.notes.Go(func() { _ = m.server.InodeNotify(f.n.id, 0, 0) }) // waits for the pages of this write
	}
	if n == 0 && err != nil {
		return 0, m.fail(err)
	}
	return uint32(n), fuse.OK
}

// endOf returns the end of a file that programs lock. The kernel appends at its own
// idea of the end, which is old if another client wrote before the kernel's
// program got the lock: a reply to SETLK has no size. The data then go to the true
// end, and the kernel, which has them at its own, drops its pages.
func (m *Mount) endOf(o *op, n *node) (uint64, error) {
	if !n.sized() {
		if err := m.flush(o, n); err != nil {
			return 0, err
		}
		if err := m.attributes(o, n); err != nil {
			return 0, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(n.attr.Size, n.wrote), nil
}

// writeBehind takes a copy of p, which the server gets later.
func (m *Mount) writeBehind(o *op, f *file, p []byte, off uint64) (int, error) {
	pending, w, err := m.writerFor(o, f.n, f.who)
	if err != nil {
		return 0, err
	}
	defer pending.took(w)
	// Also before the write: attributes learned while the data are under way
	// are not final.
	m.wrote(f.n, 0)
	if err := w.wb.Write(o, p, int64(off)); err != nil {
		return 0, err
	}
	m.wrote(f.n, off+uint64(len(p)))
	return len(p), nil
}

// writeThrough returns when p is on the server's stable storage.
func (m *Mount) writeThrough(o *op, f *file, p []byte, off uint64) (n int, err error) {
	if err := m.flush(o, f.n); err != nil {
		return 0, err
	}
	for n < len(p) {
		began := m.tick()
		part := p[n:min(len(p), n+m.cfg.FS.WriteSize())]
		res, err := f.who.client.Write(o, f.n.fh, off+uint64(n), part, nfs3.FileSync)
		unsure(err, f.n)
		if err != nil {
			return n, err
		}
		m.learnOwn(f.n, began, &res.Wcc.After)
		n += int(res.Count)
		m.toldEnd(f.n, off+uint64(n))
		if res.Count == 0 {
			break
		}
	}
	return n, nil
}

// toldEnd records that the kernel knows n to reach at least up to end.
func (m *Mount) toldEnd(n *node, end uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told.size = max(n.told.size, end)
}
