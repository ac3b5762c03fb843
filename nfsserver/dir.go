package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// readDir is READDIR (RFC 1813, Section 3.3.16).
func readDir(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.ReadDirArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	count := q.dirCount(a.Count)
	r.Reserve(int(count))
	w := nfs3.NewDirWriter(r.Head, false, count, 0)
	r.Head = q.list(ctx, r.Head, a.Dir, a.Cookie, a.Verf, &w, false)
	return nil
}

// readDirPlus is READDIRPLUS (RFC 1813, Section 3.3.17).
func readDirPlus(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.ReadDirPlusArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	count := q.dirCount(a.MaxCount)
	r.Reserve(int(count))
	w := nfs3.NewDirWriter(r.Head, true, count, a.DirCount)
	r.Head = q.list(ctx, r.Head, a.Dir, a.Cookie, a.Verf, &w, true)
	return nil
}

// dirCount returns how many bytes the results of a listing may have, without
// the status: at most the requested count, the limit of a READ, and the room in
// the reply.
func (q *request) dirCount(count uint32) uint32 {
	room := max(0, q.call.MaxReply-4)
	return uint32(min(int64(count), int64(q.server.realm.Payload()), int64(room)))
}

// list appends the results of a listing to b.
func (q *request) list(ctx context.Context, b []byte, fh nfs3.FH, cookie, verf uint64, w *nfs3.DirWriter, plus bool) []byte {
	dir, status := q.open(ctx, fh)
	if status != nfs3.OK {
		return appendDirFailure(b, status, nfs3.PostOpAttr{})
	}
	if cookie == 0 {
		verf = 0 // a new listing ignores the verifier of an earlier one
	}
	attr, verf, eof, err := q.Export.FS.ReadDir(ctx, &q.Cred, dir, cookie, verf, plus, func(e *vfs.Entry) bool {
		return w.Add(q.entry(e))
	})
	dirAttr := wirePostAttr(&attr)
	switch {
	case err != nil:
		return appendDirFailure(b, q.status(err), dirAttr)
	case w.TooSmall():
		return appendDirFailure(b, nfs3.ErrTooSmall, dirAttr)
	}
	return w.Finish(&dirAttr, verf, eof)
}

// entry returns the wire form of e, which is valid until the next call.
func (q *request) entry(e *vfs.Entry) *nfs3.Entry {
	q.dirEntry = nfs3.Entry{FileID: e.FileID, Name: e.Name, Cookie: e.Cookie}
	if e.HasHandle { // otherwise nobody knows whether a client may change the object by itself
		q.dirEntry.Attr = q.postAttr(&e.Handle, &e.Attr)
		q.dirEntry.Handle = q.handle(&e.Handle)
	}
	return &q.dirEntry
}

func appendDirFailure(b []byte, status nfs3.Status, attr nfs3.PostOpAttr) []byte {
	res := nfs3.DirRes{Status: status, DirAttr: attr}
	return res.AppendTo(b)
}
