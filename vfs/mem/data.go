package mem

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A page is a fixed-size block of file data.
type page [pageLen]byte

// A cluster holds adjacent pages in a file; a missing page is nil. Truncating a file visits all its
// clusters, but no pages in clusters that stay.
type cluster struct {
	pages [clusterLen]*page
	n     int64 // number of present pages
}

// pageAt returns a page, or nil.
func (n *node) pageAt(no uint64) *page {
	if cl := n.clusters[no/clusterLen]; cl != nil {
		return cl.pages[no%clusterLen]
	}
	return nil
}

// Read copies from the pages, and fills in zeros for missing ones.
func (f *FS) Read(_ context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.fileOf(h)
	if err == nil {
		err = n.mayRead(c)
	}
	if err != nil {
		return 0, false, n.maybeAttr(), err
	}
	done, eof := n.readPages(p, off)
	return done, eof, n.maybeAttr(), nil
}

// readPages reads a file's data.
func (n *node) readPages(p []byte, off uint64) (done int, eof bool) {
	if off >= n.attr.Size {
		return 0, true
	}
	p = p[:min(uint64(len(p)), n.attr.Size-off)]
	for done < len(p) {
		at := off + uint64(done)
		piece := p[done:min(len(p), done+pageLen-int(at%pageLen))]
		if pg := n.pageAt(at / pageLen); pg != nil {
			copy(piece, pg[at%pageLen:])
		} else {
			clear(piece)
		}
		done += len(piece)
	}
	return done, off+uint64(done) == n.attr.Size
}

// Write copies into the pages. The data cannot become more stable.
func (f *FS) Write(_ context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, _ vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.fileOf(h)
	w := n.unchangedWCC()
	if err == nil {
		err = n.mayWrite(c)
	}
	if err != nil {
		return 0, vfs.FileSync, w, err
	}
	done, err := f.writeAs(n, c, p, off)
	if done > 0 {
		w.After = n.maybeAttr()
	}
	return done, vfs.FileSync, w, err
}

// writeAs writes to a file as c, who has the right to.
func (f *FS) writeAs(n *node, c *vfs.Cred, p []byte, off uint64) (done int, err error) {
	if end := off + uint64(len(p)); end < off || end > maxFileSize {
		return 0, syscall.EFBIG
	}
	done, err = f.writePages(n, p, off)
	if done > 0 {
		f.noteModified(n)
		if c.UID != 0 {
			n.clearSetID()
		}
	}
	return done, err
}

func (f *FS) writePages(n *node, p []byte, off uint64) (done int, err error) {
	for done < len(p) {
		at := off + uint64(done)
		pg, err := f.ensurePage(n, at/pageLen)
		if err != nil {
			return done, err
		}
		done += copy(pg[at%pageLen:], p[done:])
		n.attr.Size = max(n.attr.Size, off+uint64(done))
	}
	return done, nil
}

// ensurePage returns a page in n, and allocates it if it is missing. It returns ENOSPC if the FS is
// full.
func (f *FS) ensurePage(n *node, no uint64) (*page, error) {
	if pg := n.pageAt(no); pg != nil {
		return pg, nil
	}
	cl := n.clusters[no/clusterLen]
	cost := int64(pageLen)
	if cl == nil {
		cost += clusterCost
	}
	if err := f.chargeBytes(cost); err != nil {
		return nil, err
	}
	if cl == nil {
		if n.clusters == nil {
			n.clusters = make(map[uint64]*cluster)
		}
		cl = new(cluster)
		n.clusters[no/clusterLen] = cl
	}
	pg := new(page)
	cl.pages[no%clusterLen] = pg
	cl.n++
	n.attr.Used += pageLen
	return pg, nil
}

// truncateNode sets a file's size. Data after the end is lost: it reads as zeros later.
func (f *FS) truncateNode(n *node, size uint64) {
	if size < n.attr.Size {
		if pg := n.pageAt(size / pageLen); pg != nil {
			clear(pg[size%pageLen:])
		}
		pages, clusters := n.removePages((size + pageLen - 1) / pageLen)
		n.attr.Used -= uint64(pages * pageLen)
		f.used -= pages*pageLen + clusters*clusterCost
	}
	n.attr.Size = size
}

// removePages removes all pages from page first on, and returns how many pages and clusters it
// removed.
func (n *node) removePages(first uint64) (pages, clusters int64) {
	for no, cl := range n.clusters {
		switch {
		case no < first/clusterLen:
			continue
		case no > first/clusterLen:
			pages += cl.n
			cl.n = 0
		default:
			pages += cl.removePages(first % clusterLen)
		}
		if cl.n == 0 {
			delete(n.clusters, no)
			clusters++
		}
	}
	return pages, clusters
}

func (cl *cluster) removePages(first uint64) (pages int64) {
	for i := first; i < clusterLen; i++ {
		if cl.pages[i] != nil {
			cl.pages[i] = nil
			pages++
		}
	}
	cl.n -= pages
	return pages
}

// Commit has nothing to do.
func (f *FS) Commit(_ context.Context, c *vfs.Cred, h vfs.Handle, _ uint64, _ uint32) (vfs.WCC, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.fileOf(h)
	if err == nil {
		err = n.mayWrite(c)
	}
	return n.unchangedWCC(), err
}
