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

// firstCookie is added to a file system's cookies: 0, 1 and 2 are reserved (RFC
// 8881, Section 18.23.3).
const firstCookie = 3

// readDir is READDIR (RFC 8881, Section 18.23).
func readDir(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.ReadDirArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case a.Cookie == 1 || a.Cookie == 2, a.Cookie == 0 && a.Verf != nfs4.Verifier{}:
		return nfs4.ErrBadCookie
	case x.unreadable(a.Request):
		return nfs4.ErrInval
	}
	if status := x.directory(ctx, &x.current); status != nfs4.OK {
		if status == nfs4.ErrSymlink {
			status = nfs4.ErrNotDir
		}
		return status
	}
	room := uint32(max(0, min(x.left()-4, x.server.realm.Payload())))
	count := min(a.MaxCount, room)
	if x.split {
		count = min(count, shortList)
	} else {
		x.reserve(int(count))
	}
	w := nfs4.NewDirWriter(x.out, count)
	if x.current.node != nil {
		return x.listNode(ctx, &a, &w)
	}
	return x.list(ctx, &a, &w)
}

// shortList is the length in bytes of the longest list without reserved memory:
// behind a data item none can be reserved, because the call holds some.
const shortList = 8 << 10

// reserve has the transport count the memory of results of n bytes. It may wait,
// and must not follow a data item.
func (x *compound) reserve(n int) {
	x.reply.Head = x.out
	x.rest()
	x.reply.Reserve(n)
	x.out = x.reply.Head
}

// large prepares for results of n bytes, which may be more than the room.
func (x *compound) large(n int) nfs4.Status {
	switch {
	case x.split && n > shortList:
		return nfs4.ErrRepTooBig
	case !x.split && n <= x.left():
		x.reserve(n)
	}
	return nfs4.OK
}

// rest gives up the permit before a wait.
func (x *compound) rest() {
	for _, u := range x.uses {
		u.Rest()
	}
}

// list lists a directory of an export.
func (x *compound) list(ctx context.Context, a *nfs4.ReadDirArgs, w *nfs4.DirWriter) nfs4.Status {
	l := lister{x: x, dir: x.current, want: a.Request.And(x.supported(&x.current)), w: w}
	verf, cookie, eof := binary.BigEndian.Uint64(a.Verf[:]), a.Cookie, false
	if cookie != 0 {
		cookie -= firstCookie
	}
	for again := true; again; {
		v, end, err := l.read(ctx, cookie, verf)
		switch {
		case err != nil && w.Empty():
			return x.status(err)
		case err != nil: // the client's next call gets the error
			again = false
		default:
			verf, eof, cookie = v, end, l.entry.Cookie
			again = l.late && l.addLate(ctx)
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

// A lister is one READDIR. The file system may hold locks when it calls add: an
// entry whose attributes need another call of a file system, or the wait for a
// name of an owner, is late, and is added when the file system's call has ended.
type lister struct {
	x      *compound
	dir    object
	want   nfs4.Bitmap
	w      *nfs4.DirWriter
	failed nfs4.Status // of an entry: that of READDIR

	late  bool
	entry vfs.Entry // the one that is late
}

// read reads entries up to one that is late.
func (l *lister) read(ctx context.Context, cookie, verf uint64) (newVerf uint64, eof bool, err error) {
	if err := l.x.work(ctx, &l.dir); err != nil {
		return 0, false, err
	}
	l.late = false
	u := l.dir.use
	_, newVerf, eof, err = u.Export.FS.ReadDir(ctx, &u.Cred, l.dir.h, cookie, verf, true, l.add)
	return newVerf, eof, err
}

// nameTime is how long one READDIR waits for names of owners before it ends with
// the entries that it has. The wait for the names of the last entry comes on top.
const nameTime = time.Second

// add adds an entry, and reports whether another one may follow.
func (l *lister) add(e *vfs.Entry) bool {
	x := l.x
	if vfs.IsDots(string(e.Name)) {
		return true
	}
	if !e.HasHandle || !e.Attr.OK || l.want.And(ofFS) != (nfs4.Bitmap{}) || l.want.And(ofPath) != (nfs4.Bitmap{}) ||
		l.want.Has(nfs4.AttrACL) || x.mayLead(&l.dir, string(e.Name)) || l.written(e) {
		return l.delay(e)
	}
	x.hurried, x.unknown = true, false
	status := x.fillFrom(ended, &object{use: l.dir.use, h: e.Handle}, &e.Attr.Attr, l.want, &x.entry.Attrs)
	x.hurried = false
	if x.unknown {
		return l.delay(e)
	}
	return l.put(e, status)
}

// written reports whether another client must be asked for attributes of e.
func (l *lister) written(e *vfs.Entry) bool {
	return l.want.Any(&ofData) && l.dir.use.Written(e.Handle)
}

// delay makes e the entry that is late.
func (l *lister) delay(e *vfs.Entry) bool {
	l.late, l.entry = true, *e
	l.entry.Name = bytes.Clone(e.Name)
	return false
}

// addLate adds the entry that is late, and reports whether another one may
// follow.
func (l *lister) addLate(ctx context.Context) bool {
	x, e := l.x, &l.entry
	if !l.w.Empty() && x.naming > nameTime {
		return false
	}
	return l.put(e, x.fillEntry(ctx, &l.dir, e, l.want))
}

// put adds an entry whose attributes are known, unless status says otherwise.
func (l *lister) put(e *vfs.Entry, status nfs4.Status) bool {
	x := l.x
	switch {
	case status == nfs4.OK:
	case status == nfs4.ErrNoEnt || status == nfs4.ErrStale:
		return true // its object has gone
	case l.want.Has(nfs4.AttrRdattrError):
		x.fillError(e.FileID, l.want, status, &x.entry.Attrs)
	default:
		l.failed = status
		return false
	}
	x.entry.Cookie, x.entry.Name = e.Cookie+firstCookie, e.Name
	return l.w.Add(&x.entry)
}

// fillEntry sets the attributes of an entry, and makes the calls that this needs.
func (x *compound) fillEntry(ctx context.Context, dir *object, e *vfs.Entry, want nfs4.Bitmap) nfs4.Status {
	out := &x.entry.Attrs
	switch c := x.junction(ctx, dir, string(e.Name)); {
	case c != nil:
		status := x.fillExport(ctx, c, want, out)
		x.alone(dir.use)
		return status
	case e.HasHandle && e.Attr.OK && !(want.Any(&ofData) && dir.use.Written(e.Handle)):
		return x.fillFrom(ctx, &object{use: dir.use, h: e.Handle}, &e.Attr.Attr, want, out)
	case e.HasHandle:
		return x.fill(ctx, &object{use: dir.use, h: e.Handle}, &want, out)
	}
	h, attr, _, err := dir.use.Export.FS.Lookup(ctx, &dir.use.Cred, dir.h, string(e.Name))
	switch {
	case err != nil || !attr.OK:
		return x.status(err)
	case want.Any(&ofData) && dir.use.Written(h):
		return x.fill(ctx, &object{use: dir.use, h: h}, &want, out)
	}
	return x.fillFrom(ctx, &object{use: dir.use, h: h}, &attr.Attr, want, out)
}

// fillError sets the known attributes of an entry whose attributes cannot be read (RFC
// 8881, Section 18.23.3).
func (x *compound) fillError(fileID uint64, want nfs4.Bitmap, status nfs4.Status, out *nfs4.Attrs) {
	out.Mask = want.And(nfs4.BitmapOf(nfs4.AttrRdattrError, nfs4.AttrMountedOnFileID))
	out.RdattrError, out.MountedOnFileID = status, fileID
}

// fillExport sets the attributes of the root directory of an export.
func (x *compound) fillExport(ctx context.Context, n *node, want nfs4.Bitmap, out *nfs4.Attrs) nfs4.Status {
	current := x.current
	defer func() { x.current = current }()
	if err := x.goTo(ctx, n); err != nil {
		return x.status(err)
	}
	if x.current.absent() && want.Has(nfs4.AttrRdattrError) && !want.Has(nfs4.AttrFSLocations) {
		x.fillAbsent(&x.current, want, out)
		out.RdattrError = nfs4.ErrMoved // RFC 8881, Section 11.4.2
		return nfs4.OK
	}
	return x.fill(ctx, &x.current, &want, out)
}

// listNode lists a pseudo node. Cookies are positions in its children.
func (x *compound) listNode(ctx context.Context, a *nfs4.ReadDirArgs, w *nfs4.DirWriter) nfs4.Status {
	n, t := x.current.node, x.tree()
	var v nfs4.Verifier
	binary.BigEndian.PutUint64(v[:], uint64(t.made.UnixNano()))
	from := 0
	if a.Cookie != 0 {
		if a.Verf != v {
			return nfs4.ErrNotSame
		}
		from = int(min(a.Cookie-firstCookie, uint64(len(n.children))))
	}
	want := a.Request.And(x.supported(&x.current))
	for i, c := range n.children[from:] {
		if !x.visible(ctx, t, c) {
			continue
		}
		x.entry.Cookie, x.entry.Name = uint64(from+i+1+firstCookie), []byte(c.name)
		status := nfs4.OK
		if c.export != nil {
			status = x.fillExport(ctx, c, want, &x.entry.Attrs)
		} else {
			x.entry.Attrs.Mask = want
			x.fillNode(ctx, c, &x.entry.Attrs)
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
	if w.TooSmall() && slices.ContainsFunc(n.children[from:], func(c *node) bool { return x.visible(ctx, t, c) }) {
		return nfs4.ErrTooSmall
	}
	x.out = w.Finish(v, true)
	return nfs4.OK
}
