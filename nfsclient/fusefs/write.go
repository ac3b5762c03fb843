package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Write implements fuse.RawFileSystem.
func (m *Mount) Write(cancel <-chan struct{}, in *fuse.WriteIn, p []byte) (uint32, fuse.Status) {
	f := m.files.findFile(in.Fh)
	switch {
	case f == nil:
		return 0, fuse.EBADF
	case f.lockers.lost.Load():
		return 0, fuse.EIO
	}
	m.writeBuffers.collapseMemory(p)
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	o.recordMayChange(f.n)
	write, mapped := m.writeBehind, in.WriteFlags&fuse.WRITE_CACHE != 0
	if m.cfg.Sync || in.Flags&unix.O_DIRECT != 0 && !mapped {
		write = m.writeThrough
	} else if p := f.n.pending.Load(); p != nil && !mapped {
		if err := p.losses.writeError(&f.reported); err != nil {
			return 0, m.errorStatus(err)
		}
	}
	off := in.Offset
	if in.Flags&unix.O_APPEND != 0 && !mapped && f.n.locked.Load() {
		var err error
		if off, err = m.appendOffset(o, f.n); err != nil {
			return 0, m.nodeErrorStatus(f.n, err)
		}
	}
	requests := &f.n.ensurePending().reads
	w := requests.beginWrite(off, off+uint64(len(p)), in.Unique)
	n, err := write(o, f, p, off)
	overtaken := requests.endWrite(w)
	if off != in.Offset {
		m.notifications.Go(func() { _ = m.server.InodeNotify(f.n.id, 0, 0) }) // waits for the pages of this write
	}
	if n == 0 && err != nil {
		return 0, m.errorStatus(err)
	}
	if overtaken {
		m.dropOvertakenPages(f.n, off, uint64(n))
	}
	return uint32(n), fuse.OK
}

// appendOffset returns a file's end if programs lock the file. The kernel appends
// at the end that it has cached, which is outdated if another client wrote before
// the kernel's program got the lock: a reply to SETLK has no size. The data then go
// to the true end, and the kernel, which has them at the cached end, drops its
// pages.
func (m *Mount) appendOffset(o *op, n *node) (uint64, error) {
	if !n.hasKnownSize() {
		if err := m.flushData(o, n); err != nil {
			return 0, err
		}
		if err := m.ensureAttr(o, n); err != nil {
			return 0, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(n.attr.Size, n.writtenEnd), nil
}

// writeBehind copies p, and sends the copy to the server later.
func (m *Mount) writeBehind(o *op, f *openFile, p []byte, off uint64) (int, error) {
	pending, w, err := m.writerFor(o, f.n, f.who)
	if err != nil {
		return 0, err
	}
	defer pending.releaseTaker(w)
	// Also before the write: attributes learned while the data are in flight are
	// not final.
	m.recordWrite(f.n, 0)
	if err := w.wb.Write(o, p, int64(off)); err != nil {
		return 0, err
	}
	m.recordWrite(f.n, off+uint64(len(p)))
	return len(p), nil
}

// writeThrough returns when p is on the server's stable storage.
func (m *Mount) writeThrough(o *op, f *openFile, p []byte, off uint64) (n int, err error) {
	if err := m.flushData(o, f.n); err != nil {
		return 0, err
	}
	for n < len(p) {
		began := m.nextTick()
		part := p[n:min(len(p), n+m.cfg.FS.WriteSize())]
		res, err := f.who.client.Write(o, f.n.fh, off+uint64(n), part, nfs3.FileSync)
		markIfUncertain(err, f.n)
		if err != nil {
			return n, err
		}
		m.learnAfterChange(f.n, began, &res.Wcc.After)
		n += int(res.Count)
		m.recordEnd(f.n, off+uint64(n))
		if res.Count == 0 {
			break
		}
	}
	return n, nil
}

// recordEnd records that our data are at the server, and that the kernel knows n to
// extend at least to end.
func (m *Mount) recordEnd(n *node, end uint64) {
	now := m.nextTick()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dataChangedAt = now
	n.toldStamp.Size = max(n.toldStamp.Size, end)
}
