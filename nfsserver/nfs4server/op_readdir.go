package nfs4server

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// cookieOffset is added to a file system's cookies: 0, 1 and 2 are reserved (RFC 8881, Section
// 18.23.3).
const cookieOffset = 3

// serveReadDir implements READDIR (RFC 8881, Section 18.23).
func serveReadDir(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.ReadDirArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case a.Cookie == 1 || a.Cookie == 2, a.Cookie == 0 && a.Verf != nfs4.Verifier{}:
		return nfs4.ErrBadCookie
	case x.anyWriteOnly(a.Request):
		return nfs4.ErrInval
	}
	if status := x.checkDirectory(ctx, &x.current); status != nfs4.OK {
		if status == nfs4.ErrSymlink {
			status = nfs4.ErrNotDir
		}
		return status
	}
	limit := uint32(max(0, min(x.bytesLeft()-4, x.server.exports.Payload())))
	count := min(a.MaxCount, limit)
	if x.afterItem {
		count = min(count, maxUnreserved)
	} else {
		x.reserveMemory(int(count))
	}
	w := nfs4.NewDirWriter(x.out, count)
	if x.current.node != nil {
		return x.listNode(ctx, &a, &w)
	}
	return x.listDirectory(ctx, &a, &w)
}

// maxUnreserved is the maximum length in bytes of a list without reserved memory: after a data
// item none can be reserved, because the call holds some.
const maxUnreserved = 8 << 10

// reserveMemory lets the transport account for the memory of n bytes of results. It may wait,
// and must not follow a data item.
func (x *compound) reserveMemory(n int) {
	x.reply.Head = x.out
	x.releasePermits()
	x.reply.Reserve(n)
	x.out = x.reply.Head
}

// reserveResults prepares for n bytes of results, which may exceed the available space.
func (x *compound) reserveResults(n int) nfs4.Status {
	switch {
	case x.afterItem && n > maxUnreserved:
		return nfs4.ErrRepTooBig
	case !x.afterItem && n <= x.bytesLeft():
		x.reserveMemory(n)
	}
	return nfs4.OK
}

// releasePermits releases the permits before a wait.
func (x *compound) releasePermits() {
	for _, u := range x.uses {
		u.ReleasePermit()
	}
}

// listDirectory lists a directory in an export.
func (x *compound) listDirectory(ctx context.Context, a *nfs4.ReadDirArgs, w *nfs4.DirWriter) nfs4.Status {
	l := dirLister{x: x, dir: x.current, want: a.Request.And(x.supportedAttrs(&x.current)), w: w}
	verf, cookie, eof := binary.BigEndian.Uint64(a.Verf[:]), a.Cookie, false
	if cookie != 0 {
		cookie -= cookieOffset
	}
	for again := true; again; {
		v, end, err := l.readEntries(ctx, cookie, verf)
		switch {
		case err != nil && w.Empty():
			return x.toStatus(err)
		case err != nil: // the client's next call gets the error
			again = false
		default:
			verf, eof, cookie = v, end, l.deferredEntry.Cookie
			again = l.isDeferred && l.addDeferred(ctx)
		}
	}
	switch {
	case l.failed != nfs4.OK:
		return l.failed
	case w.TooSmall():
		return nfs4.ErrTooSmall
	}
	var v nfs4.Verifier
	binary.BigEndian.PutUint64(v[:], verf)
	x.out = w.Finish(v, eof)
	return nfs4.OK
}

// A dirLister executes one READDIR. The file system may hold locks when it calls addEntry: an
// entry whose attributes require another file system call, or an owner name to be waited for,
// is deferred until the file system's call has returned.
type dirLister struct {
	x      *compound
	dir    object
	want   nfs4.Bitmap
	w      *nfs4.DirWriter
	failed nfs4.Status // an entry's status that READDIR returns

	isDeferred    bool
	deferredEntry vfs.Entry // the deferred entry
}

// readEntries reads entries until one is deferred.
func (l *dirLister) readEntries(ctx context.Context, cookie, verf uint64) (newVerf uint64, eof bool, err error) {
	if err := l.x.acquirePermit(ctx, &l.dir); err != nil {
		return 0, false, err
	}
	l.isDeferred = false
	u := l.dir.use
	_, newVerf, eof, err = u.Export.FS.ReadDir(ctx, &u.Cred, l.dir.h, cookie, verf, true, l.addEntry)
	return newVerf, eof, err
}

// maxDirNameWait is the time that one READDIR waits for owner names before it returns the
// entries that it has. It does not include the wait for the last entry's names.
const maxDirNameWait = time.Second

// addEntry adds an entry, and reports whether another one may follow.
func (l *dirLister) addEntry(e *vfs.Entry) bool {
	x := l.x
	if vfs.IsDots(string(e.Name)) {
		return true
	}
	if !e.HasHandle || !e.Attr.OK || l.want.And(spaceAttrs) != (nfs4.Bitmap{}) || l.want.And(pathConfAttrs) != (nfs4.Bitmap{}) ||
		l.want.Has(nfs4.AttrACL) || x.mayBeJunction(&l.dir, string(e.Name)) || l.isBeingWritten(e) {
		return l.deferEntry(e)
	}
	x.cachedNamesOnly, x.nameMissing = true, false
	status := x.fillFromAttr(canceledContext, &object{use: l.dir.use, h: e.Handle}, &e.Attr.Attr, l.want, &x.entry.Attrs)
	x.cachedNamesOnly = false
	if x.nameMissing {
		return l.deferEntry(e)
	}
	return l.putEntry(e, status)
}

// isBeingWritten reports whether another client must be queried for e's attributes.
func (l *dirLister) isBeingWritten(e *vfs.Entry) bool {
	return l.want.Any(&dataAttrs) && l.dir.use.HasOtherWriter(e.Handle)
}

// deferEntry defers e.
func (l *dirLister) deferEntry(e *vfs.Entry) bool {
	l.isDeferred, l.deferredEntry = true, *e
	l.deferredEntry.Name = bytes.Clone(e.Name)
	return false
}

// addDeferred adds the deferred entry, and reports whether another one may follow.
func (l *dirLister) addDeferred(ctx context.Context) bool {
	x, e := l.x, &l.deferredEntry
	if !l.w.Empty() && x.nameWait > maxDirNameWait {
		return false
	}
	return l.putEntry(e, x.fillEntry(ctx, &l.dir, e, l.want))
}

// putEntry adds an entry. status is the result of fetching its attributes.
func (l *dirLister) putEntry(e *vfs.Entry, status nfs4.Status) bool {
	x := l.x
	switch {
	case status == nfs4.OK:
	case status == nfs4.ErrNoEnt || status == nfs4.ErrStale:
		return true // its object was removed
	case l.want.Has(nfs4.AttrRdattrError):
		x.fillError(e.FileID, l.want, status, &x.entry.Attrs)
	default:
		l.failed = status
		return false
	}
	x.entry.Cookie, x.entry.Name = e.Cookie+cookieOffset, e.Name
	return l.w.Add(&x.entry)
}

// fillEntry sets an entry's attributes, and makes the calls that this requires.
func (x *compound) fillEntry(ctx context.Context, dir *object, e *vfs.Entry, want nfs4.Bitmap) nfs4.Status {
	out := &x.entry.Attrs
	switch c := x.findJunction(ctx, dir, string(e.Name)); {
	case c != nil:
		status := x.fillExport(ctx, c, want, out)
		x.releaseOthers(dir.use)
		return status
	case e.HasHandle && e.Attr.OK && !(want.Any(&dataAttrs) && dir.use.HasOtherWriter(e.Handle)):
		return x.fillFromAttr(ctx, &object{use: dir.use, h: e.Handle}, &e.Attr.Attr, want, out)
	case e.HasHandle:
		return x.fillAttrs(ctx, &object{use: dir.use, h: e.Handle}, &want, out)
	}
	h, attr, _, err := dir.use.Export.FS.Lookup(ctx, &dir.use.Cred, dir.h, string(e.Name))
	switch {
	case err != nil || !attr.OK:
		return x.toStatus(err)
	case want.Any(&dataAttrs) && dir.use.HasOtherWriter(h):
		return x.fillAttrs(ctx, &object{use: dir.use, h: h}, &want, out)
	}
	return x.fillFromAttr(ctx, &object{use: dir.use, h: h}, &attr.Attr, want, out)
}

// fillError sets the known attributes of an entry whose attributes cannot be read (RFC 8881,
// Section 18.23.3).
func (x *compound) fillError(fileID uint64, want nfs4.Bitmap, status nfs4.Status, out *nfs4.Attrs) {
	out.Mask = want.And(nfs4.BitmapOf(nfs4.AttrRdattrError, nfs4.AttrMountedOnFileID))
	out.RdattrError, out.MountedOnFileID = status, fileID
}

// fillExport sets the attributes of an export's root directory.
func (x *compound) fillExport(ctx context.Context, n *node, want nfs4.Bitmap, out *nfs4.Attrs) nfs4.Status {
	if e := n.export; want.Has(nfs4.AttrRdattrError) && (e.AwaitsAutomount() || e.IsAutomount() && want.Any(&fileSystemAttrs)) {
		return nfs4.ErrDelay // a listing does not use the file system
	}
	current := x.current
	defer func() { x.current = current }()
	if err := x.goToNode(ctx, n); err != nil {
		return x.toStatus(err)
	}
	if x.current.isAbsent() && want.Has(nfs4.AttrRdattrError) && !want.Has(nfs4.AttrFSLocations) {
		x.fillAbsentAttrs(&x.current, want, out)
		out.RdattrError = nfs4.ErrMoved // RFC 8881, Section 11.4.2
		return nfs4.OK
	}
	return x.fillAttrs(ctx, &x.current, &want, out)
}

// listNode lists a pseudo node. Cookies are positions among its children.
func (x *compound) listNode(ctx context.Context, a *nfs4.ReadDirArgs, w *nfs4.DirWriter) nfs4.Status {
	n, t := x.current.node, x.currentTree()
	var v nfs4.Verifier
	binary.BigEndian.PutUint64(v[:], uint64(t.created.UnixNano()))
	from := 0
	if a.Cookie != 0 {
		if a.Verf != v {
			return nfs4.ErrNotSame
		}
		from = int(min(a.Cookie-cookieOffset, uint64(len(n.children))))
	}
	want := a.Request.And(x.supportedAttrs(&x.current))
	for i, c := range n.children[from:] {
		if !x.isVisible(ctx, t, c) {
			continue
		}
		x.entry.Cookie, x.entry.Name = uint64(from+i+1+cookieOffset), []byte(c.name)
		status := nfs4.OK
		if c.export != nil {
			status = x.fillExport(ctx, c, want, &x.entry.Attrs)
		} else {
			x.entry.Attrs.Mask = want
			x.fillNodeAttrs(ctx, c, &x.entry.Attrs)
		}
		if status != nfs4.OK {
			if !want.Has(nfs4.AttrRdattrError) {
				return status
			}
			x.fillError(c.hash, want, status, &x.entry.Attrs)
		}
		if !w.Add(&x.entry) {
			break
		}
	}
	if w.TooSmall() && slices.ContainsFunc(n.children[from:], func(c *node) bool { return x.isVisible(ctx, t, c) }) {
		return nfs4.ErrTooSmall
	}
	x.out = w.Finish(v, true)
	return nfs4.OK
}
