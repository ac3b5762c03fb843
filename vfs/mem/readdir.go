package mem

import (
	"context"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// listVerifier is the verifier for all listings: a cookie is valid as long as the directory exists.
const listVerifier = 1

// ReadDir lists a directory in the order in which names were created. It returns handles and
// attributes only if c may search the directory.
func (f *FS) ReadDir(_ context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verifier uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	d, err := f.dirOf(dir)
	if err == nil {
		err = d.checkRights(c, read)
	}
	if err == nil && verifier != 0 && verifier != listVerifier {
		err = vfs.ErrBadCookie
	}
	if err != nil {
		return d.maybeAttr(), 0, false, err
	}
	eof := f.listEntries(d, cookie, plus && d.checkRights(c, execute) == nil, fn)
	return d.maybeAttr(), listVerifier, eof, nil
}

// listEntries calls fn for d's entries after a cookie, until the end or until fn returns false.
func (f *FS) listEntries(d *node, cookie uint64, plus bool, fn func(*vfs.Entry) bool) (eof bool) {
	for _, e := range [...]entry{{".", d, cookieDot}, {"..", d.parent, cookieDotDot}} {
		if e.cookie > cookie && !f.deliverEntry(&e, plus, fn) {
			return false
		}
	}
	for _, e := range d.names.entriesAfter(cookie) {
		if e.node != nil && !f.deliverEntry(e, plus, fn) {
			return false
		}
	}
	return true
}

func (f *FS) deliverEntry(e *entry, plus bool, fn func(*vfs.Entry) bool) (more bool) {
	out := vfs.Entry{FileID: e.node.attr.FileID, Name: []byte(e.name), Cookie: e.cookie}
	if plus {
		out.HasHandle, out.Handle, out.Attr = true, f.handleOf(e.node), e.node.maybeAttr()
	}
	return fn(&out)
}
