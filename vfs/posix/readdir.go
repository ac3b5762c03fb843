//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// ReadDir reads entries with the kernel's own positions as cookies. File
// systems keep these valid while the directory changes, so the verifier is
// always 0.
func (f *FS) ReadDir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verifier uint64, plus bool, fn func(*vfs.Entry) bool) (dirAttr vfs.MaybeAttr, newVerifier uint64, eof bool, err error) {
	d, err := f.directory(dir)
	if err != nil {
		return dirAttr, 0, false, err
	}
	defer f.put(d)
	if cookie != 0 && verifier != 0 || int64(cookie) < 0 {
		return f.attrOf(d), 0, false, vfs.ErrBadCookie
	}
	l := lister{f: f, c: c, d: d, plus: plus, fn: fn, buf: dirBufs.Get().(*dirBuf)}
	defer dirBufs.Put(l.buf)
	eof, err = l.list(ctx, int64(cookie))
	return f.attrOf(d), 0, eof, err
}

// A lister is one call of ReadDir.
type lister struct {
	f    *FS
	c    *vfs.Cred
	d    *object
	plus bool
	fn   func(*vfs.Entry) bool
	buf  *dirBuf
	st   unix.Statx_t // of d

	looked    uint64 // before the names were read, see attrCache
	expected  int    // entries, or 0: not known
	seen      bool   // all of the last group were seen before
	delivered int
}

// list calls fn for the entries from position at on.
func (l *lister) list(ctx context.Context, at int64) (eof bool, err error) {
	fl, err := l.f.open(l.d, l.c, accRead)
	if err != nil {
		return false, err
	}
	defer l.f.closeFile(l.d, fl)
	if err := l.f.stat(l.d, &l.st); err != nil {
		return false, err
	}
	if err := l.f.recheck(l.d, fl, l.c, &l.st); err != nil {
		return false, err
	}
	l.expected = fl.expects(at)
	for {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		n, next, looked, err := fl.readDir(at, &l.st, l.buf.b[:])
		l.looked = looked
		l.f.touched(l.d)
		if n == 0 || err != nil {
			return err == nil, err
		}
		left, err := l.deliver(at, l.buf.b[:n])
		if left != nil {
			left.next, left.delivered, left.looked = next, l.delivered, looked
			l.f.keep(fl, left, &l.st)
		}
		if left != nil || err != nil {
			return false, err
		}
		at = next
	}
}

// deliver calls fn for the entries in b, which begin at position at, a group at a time. It
// returns what is left of b if fn wants no more.
func (l *lister) deliver(at int64, b []byte) (left *leftover, err error) {
	for len(b) > 0 {
		n := 0
		group := b
		var nameZs [plusGroup][]byte
		for most := l.groupLen(); n < most && len(b) > 0; n++ {
			var d dirent
			d, b = nextDirent(b)
			l.buf.ents[n] = vfs.Entry{FileID: d.ino, Name: d.name(), Cookie: uint64(d.off)}
			nameZs[n] = d.nameZ
		}
		ents := l.buf.ents[:n]
		if err := l.complete(ents, nameZs[:n]); err != nil {
			return nil, err
		}
		for i := range ents {
			if !l.fn(&ents[i]) {
				return &leftover{at: at, b: group}, nil
			}
			l.delivered++
			at = int64(ents[i].Cookie)
			_, group = nextDirent(group)
		}
	}
	return nil, nil
}

// groupLen returns the number of entries in the next group: those that the last part of
// the listing had room for are expected to have room again.
func (l *lister) groupLen() int {
	if l.expected == 0 {
		return plusGroup
	}
	least := minGroup
	if l.seen { // no change of identity
		least = 1
	}
	return min(max(l.expected-l.delivered, least), plusGroup)
}

// complete adds the data that the kernel does not return with names.
func (l *lister) complete(ents []vfs.Entry, nameZs [][]byte) error {
	for i := range ents {
		switch e := &ents[i]; string(e.Name) {
		case ".":
			l.addSelf(e, l.d)
		case "..":
			l.addParent(e)
		}
	}
	if !l.plus {
		return nil
	}
	if l.seen = l.glance(ents, nameZs); l.seen {
		return nil
	}
	err := l.f.as(l.c, func() error {
		for i := range ents {
			if !ents[i].HasHandle && !isDots(string(ents[i].Name)) {
				l.add(&ents[i], nameZs[i])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if l.f.handles.ready() == nil {
		return nil
	}
	for i := range ents { // a listing may omit handles that may be lost
		if e := &ents[i]; e.HasHandle && !l.f.handles.kept(e.FileID) {
			e.Handle, e.HasHandle = vfs.Handle{}, false
		}
	}
	return nil
}

// glance adds handles and attributes of objects seen before, as FS.glance does,
// and reports whether that completed all entries.
func (l *lister) glance(ents []vfs.Entry, nameZs [][]byte) (all bool) {
	if l.f.may(l.d, l.c, unix.X_OK, &l.st) != nil {
		return false
	}
	if !l.numbered() {
		return l.lookAll(ents, nameZs, false)
	}
	all = l.lookAll(ents, nameZs, true)
	if l.numbered() {
		return all
	}
	for i := range ents {
		if e := &ents[i]; !isDots(string(e.Name)) {
			e.Handle, e.HasHandle, e.Attr = vfs.Handle{}, false, vfs.MaybeAttr{}
		}
	}
	return l.lookAll(ents, nameZs, false)
}

// numbered reports whether the names are known to be still those of the objects with the
// entries' inode numbers.
func (l *lister) numbered() bool {
	return l.f.numbered && l.f.sole.Load() && attrs.same(l.f.idOf(l.d.ino), l.looked, 0)
}

// lookAll is glance for a caller who may search, with the numbers of the entries or by
// their names alone.
func (l *lister) lookAll(ents []vfs.Entry, nameZs [][]byte, numbers bool) (all bool) {
	all = true
	var st unix.Statx_t
	for i := range ents {
		e := &ents[i]
		if isDots(string(e.Name)) {
			continue
		}
		ok := numbers && l.f.seenStat(e.FileID, &st) || l.look(nameZs[i], &st)
		if ok {
			e.Handle, ok = l.f.handles.seen(st.Ino, st.Btime)
		}
		if !ok {
			all = false
			continue
		}
		e.FileID, e.HasHandle, e.Attr = st.Ino, true, l.f.some(&st)
	}
	return all
}

// look reads the attributes of an entry, and reports whether it has read them, and the
// object is exported.
func (l *lister) look(nameZ []byte, st *unix.Statx_t) bool {
	looked := attrs.now()
	if statName(l.d.fd, nameZ, st) != nil || !l.f.exported(st) {
		return false
	}
	l.f.see(st, looked)
	return true
}

// add adds the handle and attributes if available: the entry may have been
// removed, or may be a mount point.
func (l *lister) add(e *vfs.Entry, nameZ []byte) {
	fd, err := openPathZ(l.d.fd, nameZ)
	if err != nil {
		return
	}
	defer closeFD(fd)
	var st unix.Statx_t
	if statFD(fd, &st) != nil || !l.f.exported(&st) {
		return
	}
	h, err := l.f.handles.of(fd, &st, l.d.ino, e.Name)
	if err != nil {
		return
	}
	e.FileID = st.Ino
	e.Handle, e.HasHandle = h, true
	e.Attr = l.f.some(&st)
}

func (l *lister) addSelf(e *vfs.Entry, o *object) {
	e.FileID = o.ino
	if l.plus {
		e.Handle, e.HasHandle = o.h, true
		e.Attr = l.f.attrOf(o)
	}
}

// addParent completes "..", which in the root is the root itself.
func (l *lister) addParent(e *vfs.Entry) {
	if l.d == l.f.root {
		l.addSelf(e, l.d)
		return
	}
	if !l.plus {
		return
	}
	if p, err := l.f.parent(l.c, l.d); err == nil {
		l.addSelf(e, p)
		l.f.put(p)
	}
}
