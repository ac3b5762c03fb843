package fusefs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A page is one reply of READDIR or READDIRPLUS.
type page struct {
	start   uint64 // cookie
	began   uint64 // tick before the call
	verf    uint64
	mtime   nfs3.Time // of the directory
	eof     bool
	entries []entry
}

type entry struct {
	name   string
	id     uint64
	cookie uint64
	attr   nfs3.PostOpAttr
	fh     nfs3.FH // nil: not in the reply
}

func (e *entry) dirEntry(off uint64) fuse.DirEntry {
	d := fuse.DirEntry{Ino: e.id, Name: e.name, Off: off}
	if e.attr.OK {
		d.Mode = typeBits[e.attr.Attr.Type]
	}
	return d
}

// last returns the cookie of the page's end.
func (p *page) last() uint64 {
	if len(p.entries) == 0 {
		return p.start
	}
	return p.entries[len(p.entries)-1].cookie
}

// find returns the index after a cookie, trying hint first.
func (p *page) find(cookie uint64, hint int) (i int, ok bool) {
	switch {
	case p.began == 0:
		return 0, false
	case cookie == p.start:
		return 0, true
	case hint > 0 && hint <= len(p.entries) && p.entries[hint-1].cookie == cookie:
		return hint, true
	}
	for i := range p.entries {
		if p.entries[i].cookie == cookie {
			return i + 1, true
		}
	}
	return 0, false
}

// load reads the page after a cookie into d. If the server does not know the
// cookie any more, load reads the directory from the start until the cookie
// turns up again.
func (m *Mount) load(o *op, d *dir, cookie, verf uint64, plus bool) error {
	err := m.readPage(o, d, cookie, verf, plus)
	if cookie == 0 || !errors.Is(err, nfs3.ErrBadCookie) {
		return err
	}
	for count := 0; count < maxRestart; count += len(d.page.entries) {
		from := d.page.last()
		if count == 0 {
			from = 0
		}
		if err := m.readPage(o, d, from, d.page.verfFor(from), plus); err != nil {
			return err
		}
		if i, ok := d.page.find(cookie, 0); ok {
			d.next = i
			return nil
		}
		if d.page.eof {
			break
		}
	}
	return fmt.Errorf("a directory changed while it was listed, and the server has lost the place: %w", err)
}

// verfFor returns the verifier that goes with a cookie.
func (p *page) verfFor(cookie uint64) uint64 {
	if cookie == 0 {
		return 0
	}
	return p.verf
}

// readPage makes one call. On success d is at the start of the page.
func (m *Mount) readPage(o *op, d *dir, cookie, verf uint64, plus bool) error {
	p := page{start: cookie, began: m.tick()}
	var names strings.Builder
	var ends []int
	each := func(e *nfs3.Entry) {
		x := entry{id: e.FileID, cookie: e.Cookie, attr: e.Attr}
		if e.Handle != nil {
			x.fh = append(nfs3.FH(nil), e.Handle...)
		}
		names.Write(e.Name)
		p.entries, ends = append(p.entries, x), append(ends, names.Len())
	}
	res, eof, err := m.callList(o, d, cookie, verf, plus, each)
	if err != nil {
		return err
	}
	m.learnPost(d.n, p.began, &res.DirAttr)
	if !eof && p.last() == cookie {
		return fmt.Errorf("%w: the directory listing does not advance", nfsclient.ErrReply)
	}
	p.verf, p.eof, p.mtime = res.Verf, eof, noTime
	if res.DirAttr.OK {
		p.mtime = res.DirAttr.Attr.Mtime
	}
	if err := p.name(names.String(), ends); err != nil {
		return err
	}
	d.page, d.next = p, 0
	m.learnListed(&d.page)
	return nil
}

// name sets the names of the entries, which share one string. The kernel
// rejects a directory in which a name contains a slash.
func (p *page) name(names string, ends []int) error {
	from := 0
	for i, end := range ends {
		name := names[from:end]
		if name == "" || len(name) > maxName || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("%w: invalid name in a directory listing: %.64q", nfsclient.ErrReply, name)
		}
		p.entries[i].name, from = name, end
	}
	return nil
}

// learnListed takes the attributes of entries that the kernel already knows.
func (m *Mount) learnListed(p *page) {
	for i := range p.entries {
		e := &p.entries[i]
		if e.fh == nil || !e.attr.OK {
			continue
		}
		if n := m.table.known(e.fh); n != nil {
			m.learn(n, p.began, &e.attr.Attr)
		}
	}
}

// callList calls READDIRPLUS, or READDIR if attributes are not needed or the
// server lacks READDIRPLUS.
func (m *Mount) callList(o *op, d *dir, cookie, verf uint64, plus bool, each func(*nfs3.Entry)) (nfs3.DirRes, bool, error) {
	count := uint32(m.cfg.FS.ListSize())
	if plus && !m.plain.Load() {
		res, eof, err := d.who.client.ReadDirPlus(o, &nfs3.ReadDirPlusArgs{
			Dir: d.n.fh, Cookie: cookie, Verf: verf, DirCount: count, MaxCount: count,
		}, each)
		if !errors.Is(err, nfs3.ErrNotSupp) {
			return res, eof, err
		}
		m.plain.Store(true)
	}
	return d.who.client.ReadDir(o, &nfs3.ReadDirArgs{Dir: d.n.fh, Cookie: cookie, Verf: verf, Count: count}, each)
}
