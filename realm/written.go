package realm

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A client may change a file in its cache, without a call: it has a delegation of
// version 4 for writing. Then the file system has neither the data nor the size.
// Whoever reads the data must call BeforeRead first, which recalls the delegation.
// Attributes come from Request.GetAttr, which asks the client, or are left out if
// Written. While there is no such client, all this costs one load.

// A Writer is a client that may change an object by itself (recall.Holder.Writer).
type Writer interface {
	// Ask begins to ask the client about the object, and does not wait. The Report
	// tells nothing older than the call. It is complete soon, or else the Writer itself has the
	// object recalled: a caller may go away before that.
	Ask() *Report

	// Told notes the file system's attributes that are about to go to somebody else with
	// the size of a Report. When the client is gone, and the file system has the same
	// attributes, these must change: their size has never been told. Told returns false
	// if the client is gone already: then the size must not be told.
	Told(*vfs.Attr) bool
}

// A Report is the answer of a Writer. The other fields are set before Done is
// closed.
type Report struct {
	Done    chan struct{}
	OK      bool   // the client has answered
	Changed bool   // the client has changed the object, and not written all of that back
	Size    uint64 // of the object, in bytes
}

// writer returns the holder that may change an object by itself, unless that is the
// call's own client, or nil.
func (q *Request) writer(h vfs.Handle) (*recall.Holder, error) {
	if q.Export.Keys == nil || !q.realm.holders.Written() {
		return nil, nil
	}
	key, err := q.Key(h)
	switch {
	case errors.Is(err, syscall.EOPNOTSUPP):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return q.realm.holders.Writer(q.Client, key), nil
}

// Written reports whether another client may change an object by itself, or any such
// client has come to its end since the call began, or waited: attributes of the object that
// the call has from the file system may then be old.
func (q *Request) Written(h vfs.Handle) bool {
	if q.realm.holders.Written() {
		if w, err := q.writer(h); w != nil || err != nil {
			return true
		}
	}
	return q.realm.holders.WritersGone() != q.gone
}

// ReadWaits reports whether BeforeRead would have to wait, or fails.
func (q *Request) ReadWaits(h vfs.Handle) bool {
	if !q.realm.holders.Written() {
		return false
	}
	w, err := q.writer(h)
	return w != nil || err != nil || q.realm.holders.Fenced()
}

// BeforeRead waits until no other client may change an object by itself, as the
// other functions do before a change. It must be called before the data of the
// object are read, but for those who have it open in version 4.
func (q *Request) BeforeRead(ctx context.Context, h vfs.Handle) error {
	if !q.realm.holders.Written() {
		return nil
	}
	if q.realm.holders.Fenced() {
		return Later
	}
	if w, err := q.writer(h); w == nil || err != nil {
		return err
	}
	if q.blinded(ctx, h) {
		return Access
	}
	return q.awaitWriter(ctx, h)
}

// awaitWriter is BeforeRead without a look at the caller's rights.
func (q *Request) awaitWriter(ctx context.Context, h vfs.Handle) error {
	for {
		if w, err := q.writer(h); w == nil || err != nil {
			return err
		}
		if q.realm.holders.BeginRead(&q.change.holders, q.Client, q.key) {
			return nil
		}
		if err := q.await(ctx); err != nil {
			return err
		}
	}
}

// GetAttr returns the attributes of an object. If another client may change the
// object by itself, GetAttr asks that client (RFC 8881, Section 10.4.3), and recalls
// the object from one that does not answer.
func (q *Request) GetAttr(ctx context.Context, h vfs.Handle) (vfs.Attr, error) {
	for range maxAsks {
		gone := q.realm.holders.WritersGone()
		a, err := q.Export.FS.GetAttr(ctx, &q.Cred, h)
		if err != nil || a.Type != vfs.TypeReg {
			return a, err
		}
		w, err := q.writer(h)
		switch {
		case err != nil:
			return a, err
		case w == nil && q.realm.holders.WritersGone() != gone:
			continue // perhaps that of the object, which has written back after the look
		case w == nil:
			return a, nil
		}
		r := w.Writer.(Writer).Ask()
		if err := q.awaitReport(ctx, r); err != nil { // of this call alone: the Writer still has time
			return a, err
		}
		if !r.OK || r.Size > MaxFileSize {
			break
		}
		before := a
		var ok bool
		if a, ok, err = q.reported(ctx, h, w, r, &before); ok || err != nil {
			return a, err
		}
	}
	if err := q.awaitWriter(ctx, h); err != nil { // everybody may ask for attributes
		return vfs.Attr{}, err
	}
	return q.Export.FS.GetAttr(ctx, &q.Cred, h)
}

// maxAsks is how often a Writer is asked that writes its changes back meanwhile, or
// that other calls ask about too.
const maxAsks = 4

// awaitReport waits for the answer of a Writer, as await does for holders.
func (q *Request) awaitReport(ctx context.Context, r *Report) error {
	q.Rest()
	q.reply.StepAside()
	var party fairshare.Name
	if q.peer != nil {
		party = fairshare.PartyOfIP(q.peer.Addr.Addr())
	}
	if q.realm.holders.Await(ctx, party, r.Done) != nil {
		return Later
	}
	return q.Work(ctx)
}

// reported returns the attributes of an object after the report r of the Writer w,
// which was asked when the file system had the attributes before. If the Writer has
// changed the object, the file system notes a change now, because the change attribute
// and the times must rise with each answer, and not fall when the Writer fails to write
// its data. The size is the Writer's word, and goes no further than the answer. ok is
// false if the file system's object has changed since the Writer was asked, because the size
// could then be older than the change attribute, or if w holds the object no longer.
func (q *Request) reported(ctx context.Context, h vfs.Handle, w *recall.Holder, r *Report, before *vfs.Attr) (a vfs.Attr, ok bool, err error) {
	a, err = q.Export.FS.GetAttr(ctx, &q.Cred, h)
	if err != nil || !r.Changed && r.Size == a.Size {
		return a, true, err
	}
	var ch change // nobody else may hold the object: that client would have to learn of the change
	defer func() {
		q.realm.grants.Done(&ch.grants)
		q.realm.holders.Done(&ch.holders)
	}()
	key, err := q.Key(h)
	if err != nil || !q.realm.holders.BeginFree(&ch.holders, w.Owner, key) || q.realm.holders.Writer(0, key) != w ||
		!q.realm.grants.Begin(&ch.grants, q.peer, key) {
		return a, false, err
	}
	now := vfs.SetAttr{MtimeHow: vfs.SetToServer}
	wcc, err := q.Export.FS.SetAttr(ctx, &vfs.Cred{}, h, now, nil)
	if err != nil || !wcc.Before.OK || !wcc.After.OK {
		return a, false, err
	}
	a = wcc.After.Attr
	if wcc.Before.Ctime != before.Ctime || wcc.Before.Change != before.Change || !w.Writer.(Writer).Told(&a) {
		return a, false, nil
	}
	a.Size = r.Size
	return a, true, nil
}
