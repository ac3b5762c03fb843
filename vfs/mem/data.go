package mem

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A page is some octets of a file.
type page [pageLen]byte

// Read copies out of the pages, and zeros for those that are not there.
func (f *FS) Read(_ context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.file(h)
	if err == nil {
		err = n.mayRead(c)
	}
	if err != nil {
		return 0, false, n.some(), err
	}
	if off >= n.attr.Size {
		return 0, true, n.some(), nil
	}
	p = p[:min(uint64(len(p)), n.attr.Size-off)]
	for done := 0; done < len(p); {
		at := off + uint64(done)
		piece := p[done:min(len(p), done+pageLen-int(at%pageLen))]
		if pg := n.pages[at/pageLen]; pg != nil {
			copy(piece, pg[at%pageLen:])
		} else {
			clear(piece)
		}
		done += len(piece)
	}
	return len(p), off+uint64(len(p)) == n.attr.Size, n.some(), nil
}

// Write copies into the pages. What is written is as stable as it will ever be.
func (f *FS) Write(_ context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, _ vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.file(h)
	w := n.unchanged()
	if err == nil {
		err = n.mayWrite(c)
	}
	if end := off + uint64(len(p)); err == nil && (end < off || end > maxFileSize) {
		err = syscall.EFBIG
	}
	if err != nil || len(p) == 0 {
		return 0, vfs.FileSync, w, err
	}
	done, err := f.write(n, p, off)
	if done > 0 {
		f.modified(n)
		if c.UID != 0 {
			n.plain()
		}
		w.After = n.some()
	}
	return done, vfs.FileSync, w, err
}

func (f *FS) write(n *node, p []byte, off uint64) (done int, err error) {
	for done < len(p) {
		at := off + uint64(done)
		pg, err := f.page(n, at/pageLen)
		if err != nil {
			return done, err
		}
		done += copy(pg[at%pageLen:], p[done:])
		n.attr.Size = max(n.attr.Size, off+uint64(done))
	}
	return done, nil
}

// page returns a page of n, which is made where it is not there. ENOSPC: there
// is no room for it.
func (f *FS) page(n *node, no uint64) (*page, error) {
	if pg := n.pages[no]; pg != nil {
		return pg, nil
	}
	if err := f.charge(pageLen); err != nil {
		return nil, err
	}
	if n.pages == nil {
		n.pages = make(map[uint64]*page)
	}
	pg := new(page)
	n.pages[no] = pg
	n.attr.Used += pageLen
	return pg, nil
}

// cut sets the size of a file. What lay behind it is gone: it comes back as
// zeros.
func (f *FS) cut(n *node, size uint64) {
	if size < n.attr.Size {
		if pg := n.pages[size/pageLen]; pg != nil {
			clear(pg[size%pageLen:])
		}
		first := (size + pageLen - 1) / pageLen
		for no := range n.pages {
			if no >= first {
				delete(n.pages, no)
				n.attr.Used -= pageLen
				f.used -= pageLen
			}
		}
	}
	n.attr.Size = size
}

// Commit has nothing to do.
func (f *FS) Commit(_ context.Context, c *vfs.Cred, h vfs.Handle, _ uint64, _ uint32) (vfs.WCC, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.file(h)
	if err == nil {
		err = n.mayWrite(c)
	}
	return n.unchanged(), err
}
