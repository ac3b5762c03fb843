package fusefs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A dir is an open directory. It holds one reply of the server, of which the
// kernel asks for some entries at a time. Where an entry's successor is, is the
// server's cookie to the kernel too, so that a program can go back to it.
type dir struct {
	n   *node
	who *caller

	mu   sync.Mutex
	page page
	next int  // entry of page that the kernel will want
	plus bool // it wanted attributes of some that are not the first
	big  map[uint64]uint64
}

// OpenDir implements fuse.RawFileSystem.
func (m *Mount) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := m.table.node(in.NodeId)
	if n == nil {
		return errStale
	}
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	allowed, err := m.may(o, n, nfs3.AccessRead, delegation.Directory)
	if err != nil {
		return m.failOn(n, err)
	}
	if allowed == 0 {
		return errAccess
	}
	if same, _ := n.asTold(); !same {
		m.expire(n)
	}
	out.Fh = m.files.addDir(&dir{n: n, who: o.who()})
	o.opened = out.Fh
	return fuse.OK
}

// ReleaseDir implements fuse.RawFileSystem.
func (m *Mount) ReleaseDir(in *fuse.ReleaseIn) { m.files.removeDir(in.Fh) }

// FsyncDir implements fuse.RawFileSystem. The server has changes of directories
// on stable storage when it answers.
func (m *Mount) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// ReadDir implements fuse.RawFileSystem.
func (m *Mount) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return m.list(cancel, in, false, func(_ *op, _ *dir, e *entry, off uint64) bool {
		return out.AddDirEntry(e.dirEntry(off))
	})
}

// ReadDirPlus implements fuse.RawFileSystem.
func (m *Mount) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return m.list(cancel, in, true, func(o *op, d *dir, e *entry, off uint64) bool {
		entry := out.AddDirLookupEntry(e.dirEntry(off))
		if entry != nil {
			m.tellListed(o, d, e, entry)
		}
		return entry != nil
	})
}

// tellListed tells the kernel of the object that an entry leads to, where the
// server said what it is and that is still true as far as we know. What is special
// has to be looked up.
func (m *Mount) tellListed(o *op, d *dir, e *entry, out *fuse.EntryOut) {
	if e.fh == nil || !e.attr.OK || isSpecial(typeBits[e.attr.Attr.Type]) || e.name == "." || e.name == ".." || d.n.changedSince(d.page.began) {
		return
	}
	if m.table.full() && m.table.known(e.fh) == nil {
		return // the name is enough
	}
	n, grant := m.table.refer(e.fh, d.n, e.name, sight{mtime: d.page.mtime, began: d.page.began})
	m.learn(n, d.page.began, &e.attr.Attr)
	if !n.isKnown() {
		m.table.forget(n.id, 1)
		return
	}
	o.referred = append(o.referred, n)
	m.tellEntry(o, d.n, e.name, n, grant, out)
}

// changedSince tells whether we changed n since a tick.
func (n *node) changedSince(tick uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed >= tick
}

// isKnown tells whether n has attributes, be they old.
func (n *node) isKnown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known
}

// list goes over the entries from in.Offset on, until add has no room.
func (m *Mount) list(cancel <-chan struct{}, in *fuse.ReadIn, plus bool, add func(o *op, d *dir, e *entry, off uint64) bool) fuse.Status {
	d := m.files.dir(in.Fh)
	if d == nil {
		return fuse.EBADF
	}
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	d.mu.Lock()
	defer d.mu.Unlock()
	added := false
	// The kernel wants attributes for the first entries in any case, and later
	// for some where a program looks at the files, by turns: a page has more
	// entries than it asks for at a time.
	d.plus = d.plus || plus && in.Offset != 0
	plus = plus || d.plus
	if err := m.seek(o, d, d.cookie(in.Offset), plus); err != nil {
		return m.failOn(d.n, err)
	}
	for {
		for d.next < len(d.page.entries) {
			e := &d.page.entries[d.next]
			if !add(o, d, e, d.offset(e.cookie)) {
				return fuse.OK
			}
			added = true
			d.next++
		}
		if d.page.eof || added {
			return fuse.OK
		}
		if err := m.turn(o, d, plus); err != nil {
			return m.failOn(d.n, err)
		}
	}
}

// seek goes to the entry behind a cookie. From the start, a directory is read
// anew.
func (m *Mount) seek(o *op, d *dir, cookie uint64, plus bool) error {
	if cookie != 0 {
		if i, ok := d.page.find(cookie, d.next); ok {
			d.next = i
			return nil
		}
	}
	verf := d.page.verf
	if cookie == 0 {
		verf = 0
	}
	return m.load(o, d, cookie, verf, plus)
}

// turn goes to the next page.
func (m *Mount) turn(o *op, d *dir, plus bool) error {
	return m.load(o, d, d.page.last(), d.page.verf, plus)
}

// firstBig is the first cookie that is negative as an offset of a file.
const firstBig = 1 << 63

// offset returns the place in the kernel's directory that stands for a cookie:
// the cookie itself, unless it is no offset.
func (d *dir) offset(cookie uint64) uint64 {
	if cookie < firstBig {
		return cookie
	}
	off := cookie - firstBig
	for {
		if c, taken := d.big[off]; off != 0 && (!taken || c == cookie) {
			break
		}
		off = (off + 1) % firstBig
	}
	if d.big == nil {
		d.big = make(map[uint64]uint64)
	}
	d.big[off] = cookie
	return off
}

// cookie is the reverse of offset.
func (d *dir) cookie(off uint64) uint64 {
	if c, ok := d.big[off]; ok {
		return c
	}
	return off
}
