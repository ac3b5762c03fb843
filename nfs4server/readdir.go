package nfs4server

import (
	"context"
	"encoding/binary"
	"slices"

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

// rest gives up the permit before a wait.
func (x *compound) rest() {
	for _, u := range x.uses {
		u.Rest()
	}
}

// list lists a directory of an export.
func (x *compound) list(ctx context.Context, a *nfs4.ReadDirArgs, w *nfs4.DirWriter) nfs4.Status {
	if err := x.work(ctx, &x.current); err != nil {
		return x.status(err)
	}
	dir, want := x.current, a.Request.And(x.supported())
	u := dir.use
	cookie := a.Cookie
	if cookie != 0 {
		cookie -= firstCookie
	}
	var failed nfs4.Status
	_, verf, eof, err := u.Export.FS.ReadDir(ctx, &u.Cred, dir.h, cookie, binary.BigEndian.Uint64(a.Verf[:]), true, func(e *vfs.Entry) bool {
		if vfs.IsDots(string(e.Name)) {
			return true
		}
		x.entry.Cookie, x.entry.Name = e.Cookie+firstCookie, e.Name
		if !x.fillEntry(ctx, &dir, e, want, &failed) {
			return failed == nfs4.OK
		}
		return w.Add(&x.entry)
	})
	switch {
	case err != nil:
		return x.status(err)
	case failed != nfs4.OK:
		return failed
	case w.TooSmall():
		return nfs4.ErrTooSmall
	}
	var v nfs4.Verifier
	binary.BigEndian.PutUint64(v[:], verf)
	x.out = w.Finish(v, eof)
	return nfs4.OK
}

// fillEntry sets the attributes of an entry. It returns false if the entry is
// to be left out, because its object has gone, or with a status in failed.
func (x *compound) fillEntry(ctx context.Context, dir *object, e *vfs.Entry, want nfs4.Bitmap, failed *nfs4.Status) bool {
	out := &x.entry.Attrs
	status := nfs4.OK
	switch c := x.junction(ctx, dir, string(e.Name)); {
	case c != nil:
		status = x.fillExport(ctx, c, want, out)
		x.alone(dir.use)
	case e.HasHandle && e.Attr.OK:
		status = x.fillFrom(ctx, &object{use: dir.use, h: e.Handle}, &e.Attr.Attr, want, out)
	case e.HasHandle:
		status = x.fill(ctx, &object{use: dir.use, h: e.Handle}, &want, out)
	default:
		h, attr, _, err := dir.use.Export.FS.Lookup(ctx, &dir.use.Cred, dir.h, string(e.Name))
		if status = x.status(err); err == nil && attr.OK {
			status = x.fillFrom(ctx, &object{use: dir.use, h: h}, &attr.Attr, want, out)
		}
	}
	switch {
	case status == nfs4.OK:
		return true
	case status == nfs4.ErrNoEnt || status == nfs4.ErrStale:
		return false
	case want.Has(nfs4.AttrRdattrError):
		x.fillError(e.FileID, want, status, out)
		return true
	}
	*failed = status
	return false
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
	want := a.Request.And(x.supported())
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
