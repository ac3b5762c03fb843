package exportset

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A client may change a file in its cache, without a call: it has an NFSv4 write delegation.
// Then the file system has neither the data nor the size. A program that reads the data must
// call BeforeRead first, which recalls the delegation. It gets attributes from Request.GetAttr,
// which queries the client, or omits them if HasOtherWriter returns true. While there is no
// such client, all this costs one load.

// A Writer is a client that may change an object in its cache (recall.Holder.Writer).
type Writer interface {
	// Query starts a query to the client about the object, and does not wait. The Report
	// contains nothing older than the call. It is complete soon, or else the Writer itself has
	// the object recalled: the caller may stop waiting before that.
	Query() *Report

	// NoteReported records the file system's attributes that are about to be sent to another
	// client with a Report's size. When the client has gone, and the file system has the same
	// attributes, these must change: their size has never been reported. NoteReported returns
	// false if the client has already gone: then the size must not be reported.
	NoteReported(*vfs.Attr) bool
}

// A Report is a Writer's reply. The other fields are set before Done is closed.
type Report struct {
	Done    chan struct{}
	OK      bool   // the client has replied
	Changed bool   // the client has changed the object, and has not written all of that back
	Size    uint64 // in bytes

	// Atime and Mtime are the object's times if the client is the authority for them, and has
	// changed them; otherwise they are zero. They are not in the future.
	Atime, Mtime vfs.Time
}

// isModified reports whether the client has changed an object of which the file system has the
// attributes a.
func (r *Report) isModified(a *vfs.Attr) bool {
	return r.Changed || r.Size != a.Size || a.Mtime.Before(r.Mtime)
}

// applyTimes replaces the times in a with the client's.
func (r *Report) applyTimes(a *vfs.Attr) {
	if r.Atime != (vfs.Time{}) {
		a.Atime = r.Atime
	}
	if r.Mtime != (vfs.Time{}) {
		a.Mtime = r.Mtime
	}
}

// findWriter returns the holder that may change an object in its cache, or nil if there is none
// or it is the call's own client.
func (q *Request) findWriter(h vfs.Handle) (*recall.Holder, error) {
	if q.Export.Keys == nil || !q.set.holders.HasWriters() {
		return nil, nil
	}
	key, err := q.delegatedKey(h)
	switch {
	case errors.Is(err, syscall.EOPNOTSUPP):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return q.set.holders.Writer(q.Client, key), nil
}

// HasOtherWriter reports whether another client may change an object in its cache, or any such
// client has ended since the call began, or waited: attributes that the call has got from the
// file system may then be old.
func (q *Request) HasOtherWriter(h vfs.Handle) bool {
	if q.set.holders.HasWriters() {
		if w, err := q.findWriter(h); w != nil || err != nil {
			return true
		}
	}
	return q.set.holders.WritersEnded() != q.writersGone
}

// ReadWouldWait reports whether BeforeRead would have to wait, or fail.
func (q *Request) ReadWouldWait(h vfs.Handle) bool {
	if !q.set.holders.HasWriters() {
		return false
	}
	w, err := q.findWriter(h)
	return w != nil || err != nil || q.set.holders.IsFenced()
}

// BeforeRead waits until no other client may change an object in its cache, as the other
// functions do before a change. It must be called before the object's data is read, except by
// clients that have it open over NFSv4.
func (q *Request) BeforeRead(ctx context.Context, h vfs.Handle) error {
	if !q.set.holders.HasWriters() {
		return nil
	}
	if q.set.holders.IsFenced() {
		return Later
	}
	if w, err := q.findWriter(h); w == nil || err != nil {
		return err
	}
	if q.isReadDenied(ctx, h) {
		return Access
	}
	return q.awaitWriter(ctx, h)
}

// awaitWriter waits as BeforeRead does, but does not check the caller's rights.
func (q *Request) awaitWriter(ctx context.Context, h vfs.Handle) error {
	for {
		if w, err := q.findWriter(h); w == nil || err != nil {
			return err
		}
		if q.set.holders.BeginRead(&q.change, q.Client, q.keyBuf) {
			return nil
		}
		if err := q.awaitHolders(ctx); err != nil {
			return err
		}
	}
}

// GetAttr returns an object's attributes. If another client may change the object in its cache,
// GetAttr queries that client (RFC 8881, Section 10.4.3), and recalls the object if it does not
// reply.
func (q *Request) GetAttr(ctx context.Context, h vfs.Handle) (vfs.Attr, error) {
	for range maxQueries {
		writersEnded := q.set.holders.WritersEnded()
		a, err := q.Export.FS.GetAttr(ctx, &q.Cred, h)
		if err != nil || a.Type != vfs.TypeReg {
			return a, err
		}
		w, err := q.findWriter(h)
		switch {
		case err != nil:
			return a, err
		case w == nil && q.set.holders.WritersEnded() != writersEnded:
			continue // perhaps the object's writer, which has written back after GetAttr
		case w == nil:
			return a, nil
		}
		r := w.Writer.(Writer).Query()
		if err := q.awaitReport(ctx, r); err != nil { // only for this call: the Writer still has time
			return a, err
		}
		if !r.OK || r.Size > MaxFileSize {
			break
		}
		before := a
		var ok bool
		if a, ok, err = q.applyReport(ctx, h, w, r, &before); ok || err != nil {
			return a, err
		}
	}
	if err := q.awaitWriter(ctx, h); err != nil { // every caller may request attributes
		return vfs.Attr{}, err
	}
	return q.Export.FS.GetAttr(ctx, &q.Cred, h)
}

// maxQueries is the number of queries to a Writer that writes its changes back concurrently, or
// that other calls query too.
const maxQueries = 4

// awaitReport waits for a Writer's reply, as awaitHolders does for holders.
func (q *Request) awaitReport(ctx context.Context, r *Report) error {
	q.ReleasePermit()
	q.reply.StepAside()
	var party fairshare.Name
	if q.peer != nil {
		party = fairshare.PartyOfIP(q.peer.Addr.Addr())
	}
	if q.set.holders.Await(ctx, party, r.Done) != nil {
		return Later
	}
	return q.AcquirePermit(ctx)
}

// applyReport returns an object's attributes after the report r from the Writer w, which was
// queried when the file system had the attributes before. If the Writer has changed the object,
// the file system records a change now, because the change attribute and the times must
// increase with each reply, and must not decrease if the Writer fails to write its data. The
// size and the access time come from the Writer, and are used only for the reply. ok is false if the file system's
// object has changed since the query, because the size could then be older than the change
// attribute, or if w does not hold the object any more.
func (q *Request) applyReport(ctx context.Context, h vfs.Handle, w *recall.Holder, r *Report, before *vfs.Attr) (a vfs.Attr, ok bool, err error) {
	a, err = q.Export.FS.GetAttr(ctx, &q.Cred, h)
	if err != nil || !r.isModified(&a) {
		r.applyTimes(&a)
		return a, true, err
	}
	var ch recall.Change // no other client may hold the object: it would have to be notified of the change
	defer q.set.holders.Done(&ch)
	key, err := q.delegatedKey(h)
	by := recall.Changer{Client: w.Owner, Conn: q.peer}
	if err != nil || q.isDeferred(true) || q.set.holders.Writer(0, key) != w ||
		!q.set.holders.Begin(&ch, by, key) || q.set.holders.Writer(0, key) != w {
		return a, false, err
	}
	set := vfs.SetAttr{MtimeHow: vfs.SetToServer}
	if r.Mtime != (vfs.Time{}) {
		set.MtimeHow, set.Mtime = vfs.SetToClient, r.Mtime
	}
	wcc, err := q.Export.FS.SetAttr(ctx, &vfs.Cred{}, h, set, nil)
	if err != nil || !wcc.Before.OK || !wcc.After.OK {
		return a, false, err
	}
	a = wcc.After.Attr
	if wcc.Before.Ctime != before.Ctime || wcc.Before.Change != before.Change || !w.Writer.(Writer).NoteReported(&a) {
		return a, false, nil
	}
	a.Size = r.Size
	r.applyTimes(&a)
	return a, true, nil
}
