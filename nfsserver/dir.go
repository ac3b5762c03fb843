package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// serveReadDir implements READDIR (RFC 1813, Section 3.3.16).
func serveReadDir(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.ReadDirArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	count := q.dirResultLimit(a.Count)
	r.Reserve(int(count))
	w := nfs3.NewDirWriter(r.Head, false, count, 0)
	r.Head = q.listDirectory(ctx, r.Head, a.Dir, a.Cookie, a.Verf, &w, false)
	return nil
}

// serveReadDirPlus implements READDIRPLUS (RFC 1813, Section 3.3.17).
func serveReadDirPlus(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.ReadDirPlusArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	count := q.dirResultLimit(a.MaxCount)
	r.Reserve(int(count))
	w := nfs3.NewDirWriter(r.Head, true, count, a.DirCount)
	r.Head = q.listDirectory(ctx, r.Head, a.Dir, a.Cookie, a.Verf, &w, true)
	return nil
}

// dirResultLimit returns the maximum length in bytes of a listing's results without the status:
// at most the requested count, the limit for a READ, and the space in the reply.
func (q *request) dirResultLimit(count uint32) uint32 {
	limit := max(0, q.call.MaxReply-4)
	return uint32(min(int64(count), int64(q.server.exports.Payload()), int64(limit)))
}

// listDirectory appends a listing's results to b.
func (q *request) listDirectory(ctx context.Context, b []byte, fh nfs3.FH, cookie, verf uint64, w *nfs3.DirWriter, plus bool) []byte {
	dir, status := q.openHandle(ctx, fh)
	if status != nfs3.OK {
		return appendDirFailure(b, status, nfs3.PostOpAttr{})
	}
	if cookie == 0 {
		verf = 0 // a new listing ignores the verifier from an earlier one
	}
	attr, verf, eof, err := q.Export.FS.ReadDir(ctx, &q.Cred, dir, cookie, verf, plus, func(e *vfs.Entry) bool {
		return w.Add(q.toWireEntry(e))
	})
	dirAttr := toPostOpAttr(&attr)
	switch {
	case err != nil:
		return appendDirFailure(b, q.toStatus(err), dirAttr)
	case w.TooSmall():
		return appendDirFailure(b, nfs3.ErrTooSmall, dirAttr)
	}
	return w.Finish(&dirAttr, verf, eof)
}

// toWireEntry returns e's wire form, which is valid until the next call.
func (q *request) toWireEntry(e *vfs.Entry) *nfs3.Entry {
	q.dirEntry = nfs3.Entry{FileID: e.FileID, Name: e.Name, Cookie: e.Cookie}
	// Without a handle, it is unknown whether a client may change the object in its cache. If the
	// name leads to another export, the handle is not of the object that a LOOKUP finds.
	if e.HasHandle && !q.MayCross(e.Name) {
		q.dirEntry.Attr = q.postAttr(&e.Handle, &e.Attr)
		q.dirEntry.Handle = q.wireHandle(&e.Handle)
	}
	return &q.dirEntry
}

func appendDirFailure(b []byte, status nfs3.Status, attr nfs3.PostOpAttr) []byte {
	res := nfs3.DirRes{Status: status, DirAttr: attr}
	return res.AppendTo(b)
}
