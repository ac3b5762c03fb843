package fusefs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A dir is an open directory. It holds one reply of the server, from which the
// kernel takes some entries at a time. The server's cookie is also the kernel's
// offset of the next entry, so that a program can seek back to that entry.
type dir struct {
	n   *node
	who *caller

	mu   sync.Mutex
	page page
	next int  // next entry of page for the kernel
	plus bool // the kernel wanted attributes beyond the first entries
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

// FsyncDir implements fuse.RawFileSystem. It has nothing to do: the server puts
// directory changes on stable storage before it replies.
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

// tellListed tells the kernel of the object of an entry, if the server
// described the object and nothing is known to have changed since. Special
// files must be looked up.
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

// changedSince reports whether this mount changed n since a tick.
func (n *node) changedSince(tick uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed >= tick
}

// isKnown reports whether n has attributes, however old.
func (n *node) isKnown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known
}

// list passes the entries from in.Offset on to add, until add has no room.
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
	// The kernel always wants attributes for the first entries. For later ones
	// it alternates if a program looks at the files: a page has more entries
	// than the kernel asks for at a time.
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

// seek goes to the entry after a cookie. Seeking to the start reads the
// directory anew.
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

// turn loads the next page.
func (m *Mount) turn(o *op, d *dir, plus bool) error {
	return m.load(o, d, d.page.last(), d.page.verf, plus)
}

// firstBig is the first cookie that would be a negative file offset.
const firstBig = 1 << 63

// offset returns the kernel's offset for a cookie: the cookie itself, unless
// that is no valid offset.
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
