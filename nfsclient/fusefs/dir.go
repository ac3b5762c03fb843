package fusefs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// An openDir is an open directory. It holds one reply from the server, from which
// the kernel takes some entries at a time.
type openDir struct {
	n   *node
	who *caller

	mu        sync.Mutex
	page      page
	next      int  // index in page of the next entry for the kernel
	wantsAttr bool // the kernel requested attributes beyond the first entries
	offsets
}

// OpenDir implements fuse.RawFileSystem.
func (m *Mount) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := m.table.findNode(in.NodeId)
	if n == nil {
		return errStale
	}
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	allowed, err := m.checkRights(o, n, nfs3.AccessRead, delegation.Directory)
	if err != nil {
		return m.nodeErrorStatus(n, err)
	}
	if allowed == 0 {
		return errAccess
	}
	if same, _ := n.isAsTold(); !same {
		m.expireAttr(n)
	}
	pid := in.Pid
	out.Fh = m.files.addDir(&openDir{n: n, who: o.requestCaller(), offsets: offsets{is32Bit: func() bool { return is32Bit(pid) }}})
	o.openedHandle = out.Fh
	return fuse.OK
}

// ReleaseDir implements fuse.RawFileSystem.
func (m *Mount) ReleaseDir(in *fuse.ReleaseIn) { m.files.removeDir(in.Fh) }

// FsyncDir implements fuse.RawFileSystem. It does nothing: the server puts
// directory changes on stable storage before it replies.
func (m *Mount) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// ReadDir implements fuse.RawFileSystem.
func (m *Mount) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return m.listDir(cancel, in, false, func(_ *op, _ *openDir, e *entry, off uint64) bool {
		return out.AddDirEntry(e.dirEntry(off))
	})
}

// ReadDirPlus implements fuse.RawFileSystem.
func (m *Mount) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return m.listDir(cancel, in, true, func(o *op, d *openDir, e *entry, off uint64) bool {
		entry := out.AddDirLookupEntry(e.dirEntry(off))
		if entry != nil {
			m.fillListedEntry(o, d, e, entry)
		}
		return entry != nil
	})
}

// fillListedEntry gives the kernel the object of an entry, if the server described
// the object and the directory is not known to have changed since: the program may
// have read the rest of the page long ago. Special files must be looked up.
func (m *Mount) fillListedEntry(o *op, d *openDir, e *entry, out *fuse.EntryOut) {
	if e.fh == nil || !e.attr.OK || isSpecial(typeBits[e.attr.Attr.Type]) || e.name == "." || e.name == ".." || d.n.hasChangedSince(d.page.calledAt) {
		return
	}
	if seen := d.n.serverStamp(); seen != d.page.stamp || seen == noStamp {
		return // the name is enough
	}
	if m.table.isFull() && m.table.findHandle(e.fh) == nil {
		return // the name is enough
	}
	n, grant := m.table.referNode(e.fh, d.n, e.name, sighting{stamp: d.page.stamp, began: d.page.calledAt})
	m.learnAttr(n, d.page.calledAt, &e.attr.Attr)
	if !n.hasAttr() {
		m.table.dropReferences(n.id, 1)
		return
	}
	o.referred = append(o.referred, n)
	m.fillEntry(o, d.n, e.name, n, grant, out)
}

// hasChangedSince reports whether this mount changed n since a tick.
func (n *node) hasChangedSince(tick uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changedAt >= tick
}

// hasAttr reports whether n has attributes, however old.
func (n *node) hasAttr() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known
}

// listDir passes the entries from in.Offset on to add, until add has no space.
func (m *Mount) listDir(cancel <-chan struct{}, in *fuse.ReadIn, plus bool, add func(o *op, d *openDir, e *entry, off uint64) bool) fuse.Status {
	d := m.files.findDir(in.Fh)
	if d == nil {
		return fuse.EBADF
	}
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.n.trustedUntil.clear() // the kernel drops the atime
	added := false
	// The kernel always requests attributes for the first entries. For later ones
	// it alternates if a program uses the files: a page has more entries than the
	// kernel requests at a time.
	d.wantsAttr = d.wantsAttr || plus && in.Offset != 0
	plus = plus || d.wantsAttr
	cookie, ok := d.cookieAt(in.Offset)
	if !ok {
		return fuse.EIO // too many entries ago
	}
	if err := m.seekDir(o, d, cookie, plus); err != nil {
		return m.nodeErrorStatus(d.n, err)
	}
	for {
		for d.next < len(d.page.entries) {
			e := &d.page.entries[d.next]
			if e.name == "" { // invalid
				d.next++
				continue
			}
			if !add(o, d, e, d.offsetOf(e.cookie)) {
				return fuse.OK
			}
			added = true
			d.next++
		}
		if d.page.eof || added {
			return fuse.OK
		}
		if err := m.loadNextPage(o, d, plus); err != nil {
			return m.nodeErrorStatus(d.n, err)
		}
	}
}

// seekDir goes to the entry after a cookie. Seeking to the start reads the
// directory anew.
func (m *Mount) seekDir(o *op, d *openDir, cookie uint64, plus bool) error {
	if cookie != 0 {
		if i, ok := d.page.findCookie(cookie, d.next); ok {
			d.next = i
			return nil
		}
	}
	verf := d.page.verf
	if cookie == 0 {
		verf = 0
		d.rewind()
	}
	return m.loadPage(o, d, cookie, verf, plus)
}

// loadNextPage loads the next page.
func (m *Mount) loadNextPage(o *op, d *openDir, plus bool) error {
	return m.loadPage(o, d, d.page.lastCookie(), d.page.verf, plus)
}
