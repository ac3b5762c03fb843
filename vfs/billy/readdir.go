package billy

import (
	"context"
	"sort"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Cookies of the entries that every directory has; all others are larger.
const (
	cookieDot    = 1
	cookieDotDot = 2
)

// listVerifier is the verifier for all listings: a cookie is derived from the name alone, so it
// never becomes invalid.
const listVerifier = 1

// ReadDir lists a directory in the order of its cookies. It omits names that no
// client could use.
func (f *FS) ReadDir(_ context.Context, _ *vfs.Cred, dir vfs.Handle, cookie, verifier uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	d, err := f.getDirectory(dir)
	if err != nil {
		return vfs.MaybeAttr{OK: d.n != nil, Attr: d.attr}, 0, false, err
	}
	if verifier != 0 && verifier != listVerifier {
		return maybeAttrOf(&d.attr), 0, false, vfs.ErrBadCookie
	}
	list, err := f.sortedNames(&d, cookie == 0)
	if err != nil {
		return maybeAttrOf(&d.attr), 0, false, err
	}
	eof, err := f.listEntries(&d, list, cookie, plus, fn)
	return maybeAttrOf(&d.attr), listVerifier, eof, err
}

// listEntries calls fn for d's entries after a cookie.
func (f *FS) listEntries(d *object, names []entry, cookie uint64, plus bool, fn func(*vfs.Entry) bool) (eof bool, err error) {
	for ; cookie < cookieDotDot; cookie++ {
		e := entry{cookieDot, "."}
		if cookie == cookieDot {
			e = entry{cookieDotDot, ".."}
		}
		if more, err := f.deliverEntry(d, e, plus, fn); !more {
			return false, err
		}
	}
	next := sort.Search(len(names), func(i int) bool { return names[i].cookie > cookie })
	for _, e := range names[next:] {
		if more, err := f.deliverEntry(d, e, plus, fn); !more {
			return false, err
		}
	}
	return true, nil
}

// deliverEntry calls fn for an entry. It skips an entry that is gone.
func (f *FS) deliverEntry(d *object, e entry, plus bool, fn func(*vfs.Entry) bool) (more bool, err error) {
	o, err := f.lookupName(d, e.name)
	switch {
	case err == syscall.ENOENT:
		return true, nil
	case err != nil:
		return false, err
	}
	out := vfs.Entry{FileID: o.attr.FileID, Name: []byte(e.name), Cookie: e.cookie}
	if plus {
		out.HasHandle, out.Handle, out.Attr = true, o.n.handle, maybeAttrOf(&o.attr)
	}
	return fn(&out), nil
}
