package fusefs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A page is one READDIR or READDIRPLUS reply.
type page struct {
	start    uint64 // cookie
	calledAt uint64 // tick before the call
	verf     uint64
	stamp    delegation.Stamp // the directory's state
	eof      bool
	entries  []entry
}

type entry struct {
	name   string // "": invalid, and hidden from the kernel
	id     uint64 // inode number
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

// lastCookie returns the cookie at the page's end.
func (p *page) lastCookie() uint64 {
	if len(p.entries) == 0 {
		return p.start
	}
	return p.entries[len(p.entries)-1].cookie
}

// findCookie returns the index after a cookie, trying hint first.
func (p *page) findCookie(cookie uint64, hint int) (i int, ok bool) {
	switch {
	case p.calledAt == 0:
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

// loadPage reads the page after a cookie into d. If the server does not know the
// cookie any more, load reads the directory from the start until the cookie appears
// again.
func (m *Mount) loadPage(o *op, d *openDir, cookie, verf uint64, plus bool) error {
	err := m.readPage(o, d, cookie, verf, plus)
	if cookie == 0 || !errors.Is(err, nfs3.ErrBadCookie) {
		return err
	}
	for count := 0; count < maxRestart; count += len(d.page.entries) {
		from := d.page.lastCookie()
		if count == 0 {
			from = 0
		}
		if err := m.readPage(o, d, from, d.page.verifierFor(from), plus); err != nil {
			return err
		}
		if i, ok := d.page.findCookie(cookie, 0); ok {
			d.next = i
			return nil
		}
		if d.page.eof {
			break
		}
	}
	return fmt.Errorf("a directory changed while it was listed, and the server no longer knows the position: %w", err)
}

// verifierFor returns the verifier that goes with a cookie.
func (p *page) verifierFor(cookie uint64) uint64 {
	if cookie == 0 {
		return 0
	}
	return p.verf
}

// readPage sends one call. On success d is at the start of the page.
func (m *Mount) readPage(o *op, d *openDir, cookie, verf uint64, plus bool) error {
	p := page{start: cookie, calledAt: m.nextTick()}
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
	res, eof, err := m.callReadDir(o, d, cookie, verf, plus, each)
	if err != nil {
		return err
	}
	m.learnPostOpAttr(d.n, p.calledAt, &res.DirAttr)
	if !eof && p.lastCookie() == cookie {
		return fmt.Errorf("%w: the directory listing does not advance", nfsclient.ErrReply)
	}
	p.verf, p.eof, p.stamp = res.Verf, eof, noStamp
	if res.DirAttr.OK {
		p.stamp = attrStamp(&res.DirAttr.Attr)
	}
	if err := p.setNames(names.String(), ends); err != nil {
		m.logFailure(err)
	}
	d.page, d.next = p, 0
	m.learnListed(&d.page)
	m.numberEntries(d.n, &d.page)
	return nil
}

// setNames sets the entries' names, which share one string. The kernel rejects a
// directory in which a name contains a slash: such a name is omitted, and the error
// is about the last.
func (p *page) setNames(names string, ends []int) (invalid error) {
	from := 0
	for i, end := range ends {
		name := names[from:end]
		if name == "" || len(name) > maxName || strings.ContainsAny(name, "/\x00") {
			invalid = fmt.Errorf("%w: invalid name in a directory listing: %.64q", nfsclient.ErrReply, name)
			name = ""
		}
		p.entries[i].name, from = name, end
	}
	return invalid
}

// learnListed stores the attributes for entries that the kernel already knows.
func (m *Mount) learnListed(p *page) {
	for i := range p.entries {
		e := &p.entries[i]
		if e.fh == nil || !e.attr.OK {
			continue
		}
		if n := m.table.findHandle(e.fh); n != nil {
			m.learnAttr(n, p.calledAt, &e.attr.Attr)
		}
	}
}

// callReadDir calls READDIRPLUS, or READDIR if attributes are not needed or the
// server lacks READDIRPLUS.
func (m *Mount) callReadDir(o *op, d *openDir, cookie, verf uint64, plus bool, each func(*nfs3.Entry)) (nfs3.DirRes, bool, error) {
	count := uint32(m.cfg.FS.ListSize())
	if plus && !m.noReadDirPlus.Load() {
		res, eof, err := d.who.client.ReadDirPlus(o, &nfs3.ReadDirPlusArgs{
			Dir: d.n.fh, Cookie: cookie, Verf: verf, DirCount: count, MaxCount: count,
		}, each)
		if !errors.Is(err, nfs3.ErrNotSupp) {
			return res, eof, err
		}
		m.noReadDirPlus.Store(true)
	}
	return d.who.client.ReadDir(o, &nfs3.ReadDirArgs{Dir: d.n.fh, Cookie: cookie, Verf: verf, Count: count}, each)
}
