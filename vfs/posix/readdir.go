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
	d, err := f.getDirectory(dir)
	if err != nil {
		return dirAttr, 0, false, err
	}
	defer f.putObject(d)
	if cookie != 0 && verifier != 0 || int64(cookie) < 0 {
		return f.attrOf(d), 0, false, vfs.ErrBadCookie
	}
	l := dirLister{f: f, c: c, d: d, plus: plus, fn: fn, buf: dirBufs.Get().(*dirBuf)}
	defer dirBufs.Put(l.buf)
	eof, err = l.listEntries(ctx, int64(cookie))
	return f.attrOf(d), 0, eof, err
}

// A dirLister is one ReadDir call.
type dirLister struct {
	f    *FS
	c    *vfs.Cred
	d    *object
	plus bool
	fn   func(*vfs.Entry) bool
	buf  *dirBuf
	st   unix.Statx_t // d's attributes

	looked    uint64 // before the names were read, see attrCache
	expected  int    // entries, or 0: not known
	seen      bool   // the whole last group was seen before
	delivered int
}

// listEntries calls fn for the entries from position at on.
func (l *dirLister) listEntries(ctx context.Context, at int64) (eof bool, err error) {
	fl, err := l.f.openAs(l.d, l.c, accRead)
	if err != nil {
		return false, err
	}
	defer l.f.closeFile(l.d, fl)
	if err := l.f.statOrStale(l.d, &l.st); err != nil {
		return false, err
	}
	if err := l.f.recheckAccess(l.d, fl, l.c, &l.st); err != nil {
		return false, err
	}
	l.expected = fl.expectedEntries(at)
	for {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		n, next, looked, err := fl.readDir(at, &l.st, l.buf.b[:])
		l.looked = looked
		l.f.noteRead(l.d)
		if n == 0 || err != nil {
			return err == nil, err
		}
		left, err := l.deliverEntries(at, l.buf.b[:n])
		if left != nil {
			left.next, left.delivered, left.looked = next, l.delivered, looked
			l.f.keepLeftover(fl, left, &l.st)
		}
		if left != nil || err != nil {
			return false, err
		}
		at = next
	}
}

// deliverEntries calls fn for the entries in b, which begin at position at, a group at a time. It
// returns the rest of b if fn wants no more.
func (l *dirLister) deliverEntries(at int64, b []byte) (left *dirLeftover, err error) {
	for len(b) > 0 {
		n := 0
		group := b
		var nameZs [plusGroup][]byte
		for most := l.groupLen(); n < most && len(b) > 0; n++ {
			var d dirent
			d, b = nextDirent(b)
			l.buf.ents[n] = vfs.Entry{FileID: d.ino, Name: d.nameBytes(), Cookie: uint64(d.off)}
			nameZs[n] = d.nameZ
		}
		ents := l.buf.ents[:n]
		if err := l.completeEntries(ents, nameZs[:n]); err != nil {
			return nil, err
		}
		for i := range ents {
			if !l.fn(&ents[i]) {
				return &dirLeftover{at: at, b: group}, nil
			}
			l.delivered++
			at = int64(ents[i].Cookie)
			_, group = nextDirent(group)
		}
	}
	return nil, nil
}

// groupLen returns the number of entries in the next group: as many as the last request delivered
// are expected to fit again.
func (l *dirLister) groupLen() int {
	if l.expected == 0 {
		return plusGroup
	}
	least := minGroup
	if l.seen { // no identity switch
		least = 1
	}
	return min(max(l.expected-l.delivered, least), plusGroup)
}

// completeEntries adds the data that the kernel does not return with names.
func (l *dirLister) completeEntries(ents []vfs.Entry, nameZs [][]byte) error {
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
	if l.seen = l.completeKnown(ents, nameZs); l.seen {
		return nil
	}
	err := l.f.runAs(l.c, func() error {
		for i := range ents {
			if !ents[i].HasHandle && !isDots(string(ents[i].Name)) {
				l.addHandle(&ents[i], nameZs[i])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if l.f.handles.persistAll() == nil {
		return nil
	}
	for i := range ents { // a listing may omit handles that may be lost
		if e := &ents[i]; e.HasHandle && !l.f.handles.isPersistent(e.Handle) {
			e.Handle, e.HasHandle = vfs.Handle{}, false
		}
	}
	return nil
}

// completeKnown adds the handles and attributes of objects seen before, as FS.lookupKnown does, and
// reports whether that completed all entries.
func (l *dirLister) completeKnown(ents []vfs.Entry, nameZs [][]byte) (all bool) {
	if l.f.mayAccess(l.d, l.c, unix.X_OK, &l.st) != nil {
		return false
	}
	if !l.hasInodes() {
		return l.lookAll(ents, nameZs, false)
	}
	all = l.lookAll(ents, nameZs, true)
	if l.hasInodes() {
		return all
	}
	for i := range ents {
		if e := &ents[i]; !isDots(string(e.Name)) {
			e.Handle, e.HasHandle, e.Attr = vfs.Handle{}, false, vfs.MaybeAttr{}
		}
	}
	return l.lookAll(ents, nameZs, false)
}

// hasInodes reports whether the names still belong to the entries' inode numbers.
func (l *dirLister) hasInodes() bool {
	return l.f.hasInodes && l.f.exclusive.Load() && attrs.isUnchanged(l.f.idOf(l.d.ino), l.looked, 0)
}

// lookAll is completeKnown for a caller who may search, with the entries' inode numbers or only by
// their names.
func (l *dirLister) lookAll(ents []vfs.Entry, nameZs [][]byte, numbers bool) (all bool) {
	all = true
	var st unix.Statx_t
	for i := range ents {
		e := &ents[i]
		if isDots(string(e.Name)) {
			continue
		}
		ok := numbers && l.f.cachedStat(e.FileID, &st) || l.statEntry(nameZs[i], &st)
		if ok {
			e.Handle, ok = l.f.handles.knownHandle(st.Ino, st.Btime)
		}
		if !ok {
			all = false
			continue
		}
		e.FileID, e.HasHandle, e.Attr = st.Ino, true, l.f.maybeAttrOf(&st)
	}
	return all
}

// statEntry reads the attributes of an entry, and reports whether it has read them, and the
// object is exported.
func (l *dirLister) statEntry(nameZ []byte, st *unix.Statx_t) bool {
	looked := attrs.currentTime()
	if statName(l.d.fd, nameZ, st) != nil || !l.f.isExported(st) {
		return false
	}
	l.f.cacheAttr(st, looked)
	return true
}

// addHandle adds the handle and attributes if available: the entry may have been
// removed, or may be a mount point.
func (l *dirLister) addHandle(e *vfs.Entry, nameZ []byte) {
	fd, err := openPathZ(l.d.fd, nameZ)
	if err != nil {
		return
	}
	defer closeFD(fd)
	var st unix.Statx_t
	if statFD(fd, &st) != nil || !l.f.isExported(&st) {
		return
	}
	h, err := l.f.handles.handleOf(fd, &st, l.d.ino, e.Name)
	if err != nil {
		return
	}
	e.FileID = st.Ino
	e.Handle, e.HasHandle = h, true
	e.Attr = l.f.maybeAttrOf(&st)
}

func (l *dirLister) addSelf(e *vfs.Entry, o *object) {
	e.FileID = o.ino
	if l.plus {
		e.Handle, e.HasHandle = o.h, true
		e.Attr = l.f.attrOf(o)
	}
}

// addParent completes "..", which in the root is the root itself.
func (l *dirLister) addParent(e *vfs.Entry) {
	if l.d == l.f.root {
		l.addSelf(e, l.d)
		return
	}
	if !l.plus {
		return
	}
	if p, err := l.f.parentOf(l.c, l.d); err == nil {
		l.addSelf(e, p)
		l.f.putObject(p)
	}
}
