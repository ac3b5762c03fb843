package mem

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Spacer = (*FS)(nil)

// openPart returns a part's file, if c has permission for the access or p.File is open for it. It
// also returns the credentials for the change.
func (f *FS) openPart(c *vfs.Cred, p *vfs.Part, access vfs.OpenAccess) (*node, *vfs.Cred, error) {
	if p.File != nil {
		w, ok := p.File.(*openFile)
		if !ok || w.f != f || w.write != (access == vfs.OpenWrite) {
			return nil, nil, syscall.EBADF
		}
		return w.n, &w.cred, nil
	}
	n, err := f.fileOf(p.Handle)
	if err == nil {
		err = n.mayOpen(c, access)
	}
	return n, c, err
}

// Allocate allocates pages (vfs.Spacer).
func (f *FS) Allocate(_ context.Context, c *vfs.Cred, p vfs.Part, n uint64) error {
	end := p.Offset + n
	switch {
	case n == 0:
		return syscall.EINVAL
	case end < n || end > maxFileSize:
		return syscall.EFBIG
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	file, as, err := f.openPart(c, &p, vfs.OpenWrite)
	if err != nil {
		return err
	}
	first, last := p.Offset/pageLen, (end-1)/pageLen
	if !f.hasSpaceFor(file, first, last) {
		return syscall.ENOSPC
	}
	for no := first; no <= last; no++ {
		if _, err := f.ensurePage(file, no); err != nil {
			return err
		}
	}
	file.attr.Size = max(file.attr.Size, end)
	f.noteWritten(file, as)
	return nil
}

// hasSpaceFor reports whether there is space for a range's missing pages.
func (f *FS) hasSpaceFor(n *node, first, last uint64) bool {
	free := f.size - f.used
	if last-first >= uint64(f.size/pageLen) {
		return false
	}
	for no := first; no <= last; no++ {
		if n.pageAt(no) == nil {
			free -= pageLen
		}
		if (no == first || no%clusterLen == 0) && n.clusters[no/clusterLen] == nil {
			free -= clusterCost
		}
	}
	return free >= 0
}

// noteWritten records that c has changed a file's data.
func (f *FS) noteWritten(n *node, c *vfs.Cred) {
	f.noteModified(n)
	if c.UID != 0 {
		n.clearSetID()
	}
}

// Deallocate frees whole pages, and zeroes partial ones (vfs.Spacer).
func (f *FS) Deallocate(_ context.Context, c *vfs.Cred, p vfs.Part, n uint64) error {
	if n == 0 {
		return syscall.EINVAL
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	file, as, err := f.openPart(c, &p, vfs.OpenWrite)
	if err != nil {
		return err
	}
	end := min(file.attr.Size, p.Offset+min(n, maxFileSize-min(p.Offset, maxFileSize)))
	for at := p.Offset; at < end; {
		no, from := at/pageLen, at%pageLen
		cl := file.clusters[no/clusterLen]
		if cl == nil {
			at = (no/clusterLen + 1) * clusterLen * pageLen
			continue
		}
		upTo := min(pageLen, from+end-at)
		switch pg := cl.pages[no%clusterLen]; {
		case pg == nil:
		case from > 0 || upTo < pageLen && at-from+upTo < file.attr.Size:
			clear(pg[from:upTo])
		default:
			f.freePage(file, no)
		}
		at += upTo - from
	}
	f.noteWritten(file, as)
	return nil
}

// freePage frees one page in a file.
func (f *FS) freePage(n *node, no uint64) {
	cl := n.clusters[no/clusterLen]
	cl.pages[no%clusterLen] = nil
	n.attr.Used -= pageLen
	f.used -= pageLen
	if cl.n--; cl.n == 0 {
		delete(n.clusters, no/clusterLen)
		f.used -= clusterCost
	}
}

// Seek finds a page, or a missing one (vfs.Spacer).
func (f *FS) Seek(_ context.Context, c *vfs.Cred, p vfs.Part, hole bool) (off uint64, eof bool, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	file, _, err := f.openPart(c, &p, vfs.OpenRead)
	switch {
	case err != nil:
		return 0, false, err
	case p.Offset >= file.attr.Size:
		return 0, false, syscall.ENXIO
	}
	for at := p.Offset; at < file.attr.Size; {
		no := at / pageLen
		switch {
		case (file.pageAt(no) == nil) == hole:
			return at, false, nil
		case file.clusters[no/clusterLen] == nil:
			at = (no/clusterLen + 1) * clusterLen * pageLen
		default:
			at = (no + 1) * pageLen
		}
	}
	return file.attr.Size, true, nil
}

// Advise follows no advice.
func (f *FS) Advise(context.Context, *vfs.Cred, vfs.Part, uint64, vfs.Advice) error {
	return syscall.EOPNOTSUPP
}
