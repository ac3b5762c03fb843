package exportset

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Clients may hold delegations of objects that other clients are about to change: with
// delegation counters (docs/delegation.md, Section 5), or over NFSv4. Package recall asks both
// for their return. Every procedure that changes an object must therefore call one of the
// functions here, or in naming.go, after all other checks, and must return if that fails. The
// announced change lasts until the request ends.

// BeforeSetAttr announces a change of the object with a handle, and waits for other clients
// that hold a delegation. So do the next three functions.
func (q *Request) BeforeSetAttr(ctx context.Context, h vfs.Handle, set *vfs.SetAttr) error {
	if q.isUndelegated() {
		return nil
	}
	if err := q.checkSetAttr(ctx, h, set); err != nil {
		return err
	}
	return q.announceChange(ctx, h)
}

// BeforeSetACL is like BeforeSetAttr, but for SETACL, which only the owner may use.
func (q *Request) BeforeSetACL(ctx context.Context, h vfs.Handle) error {
	return q.BeforeSetAttr(ctx, h, &vfs.SetAttr{Mode: new(uint32)})
}

// BeforeSetXattr is like BeforeSetAttr, but for a change of extended attributes,
// which requires permission to write.
func (q *Request) BeforeSetXattr(ctx context.Context, h vfs.Handle) error {
	return q.BeforeSetAttr(ctx, h, &vfs.SetAttr{})
}

// BeforeWrite is like BeforeSetAttr, but for WRITE.
func (q *Request) BeforeWrite(ctx context.Context, h vfs.Handle) error {
	switch {
	case !q.isDeferred(false):
		return q.BeforeStateWrite(ctx, h)
	case q.isWriteDenied(ctx, h, vfs.TypeReg):
		return Access
	}
	return Later
}

// BeforeStateWrite is like BeforeWrite, but for a write with an NFSv4 open or delegation.
func (q *Request) BeforeStateWrite(ctx context.Context, h vfs.Handle) error {
	switch {
	case q.isUndelegatedByState():
		return nil
	case q.isWriteDenied(ctx, h, vfs.TypeReg):
		return Access
	}
	return q.announceChangeByState(ctx, h)
}

// EndHolderChange ends the changes that the call has announced: the caller's client may hold the
// objects now.
func (q *Request) EndHolderChange() { q.set.holders.Done(&q.change) }

// BeforeOpenWrite is like BeforeWrite, but for an open file, and for opening one: the file
// system has checked the caller's rights. After a restart, the NFSv4 state decides which opens
// have to wait for clients that may reclaim.
func (q *Request) BeforeOpenWrite(ctx context.Context, h vfs.Handle) error {
	if q.isUndelegatedByState() {
		return nil
	}
	return q.announceChangeByState(ctx, h)
}

// BeforeReclaim is like BeforeOpenWrite, but for an open that a client reclaims. It is not
// deferred: it changes nothing before a write, and the time for reclaims ends.
func (q *Request) BeforeReclaim(ctx context.Context, h vfs.Handle) error {
	if q.Export.Keys == nil || q.set.holders.NothingHeld(&q.change) {
		return nil
	}
	return q.recallObject(ctx, h)
}

// announceChange announces a change of an object, and waits for the holders of delegations.
func (q *Request) announceChange(ctx context.Context, h vfs.Handle) error {
	if q.isDeferred(false) {
		return Later
	}
	return q.announceChangeByState(ctx, h)
}

// announceChangeByState is like announceChange, but for a change by NFSv4 state.
func (q *Request) announceChangeByState(ctx context.Context, h vfs.Handle) error {
	if q.isDeferred(true) {
		return Later
	}
	return q.recallObject(ctx, h)
}

// recallObject announces a change of an object that is not deferred.
func (q *Request) recallObject(ctx context.Context, h vfs.Handle) error {
	for {
		ready, err := q.beginChange(q.peer, []vfs.Handle{h})
		if ready || err != nil {
			return err
		}
		if err := q.awaitHolders(ctx); err != nil {
			return err
		}
	}
}

// isUndelegated reports whether there is no delegation, and none will be granted before the
// request ends.
func (q *Request) isUndelegated() bool { return !q.isDeferred(false) && q.isUndelegatedByState() }

// isUndelegatedByState is like isUndelegated, but for a change by NFSv4 state.
func (q *Request) isUndelegatedByState() bool {
	return q.Export.Keys == nil || !q.isDeferred(true) && q.set.holders.NothingHeld(&q.change)
}

// isDeferred reports whether a change in the export must be deferred (Config.DefersChange).
func (q *Request) isDeferred(byState bool) bool {
	return q.Export.Keys != nil && q.set.defersChange != nil && q.set.defersChange(byState)
}

// beginChange announces that a peer changes objects, and reports whether the peer may do so
// without waiting.
func (q *Request) beginChange(p *oncrpc.Peer, handles []vfs.Handle) (ready bool, err error) {
	ready = true
	for _, h := range handles {
		key, err := q.delegatedKey(h)
		switch {
		case errors.Is(err, syscall.EOPNOTSUPP): // so the object has no delegations
			continue
		case err != nil:
			return false, err
		}
		by := recall.Changer{}
		if p != nil {
			by = recall.Changer{Client: q.Client, Conn: p}
		}
		ready = q.set.holders.Begin(&q.change, by, key) && ready
	}
	return ready, nil
}

// Key returns an object's key, which is the same for all its handles.
// The key is valid until the next call to Key.
func (q *Request) Key(h vfs.Handle) (key []byte, err error) {
	q.keyBuf, err = q.Export.Keys.AppendKey(q.keyBuf[:0], h)
	return q.keyBuf, err
}

// delegatedKey returns the key under which clients may hold delegations of an object, even if
// this handle has none, because another handle of the object may have been delegated.
func (q *Request) delegatedKey(h vfs.Handle) (key []byte, err error) {
	key, err = q.Key(h)
	if a, ok := q.Export.Keys.(vfs.AliasIdentifier); ok && errors.Is(err, syscall.EOPNOTSUPP) {
		q.keyBuf, err = a.AppendAliasKey(q.keyBuf[:0], h)
		return q.keyBuf, err
	}
	return key, err
}

// AppendObject appends an object's name to b: its key or, without one, its filehandle.
// All protocols use this name for the object's state.
func (q *Request) AppendObject(b []byte, h vfs.Handle) ([]byte, error) {
	if q.Export.Keys != nil {
		key, err := q.Key(h)
		if !errors.Is(err, syscall.EOPNOTSUPP) {
			return append(append(b, 'k'), key...), err
		}
	}
	return append(append(b, 'h'), q.Handle(&h)...), nil
}

// LockWaited reports whether a host process waits for a lock of the object with a
// name (AppendObject), if the file system can tell.
func (e *Exported) LockWaited(object string) (waited, known bool) {
	w, ok := e.Locker.(vfs.LockWatcher)
	key, found := strings.CutPrefix(object, "k")
	if !ok || !found || !e.Enter() {
		return false, false
	}
	defer e.Leave()
	waited, err := w.LockWaited([]byte(key))
	return waited, err == nil
}

// awaitHolders waits for the holders of delegations. In the meantime the call occupies
// neither a permit nor a slot of its connection, because the calls that end the
// wait need them.
func (q *Request) awaitHolders(ctx context.Context) error {
	q.ReleasePermit()
	q.reply.StepAside()
	var party fairshare.Name
	if q.peer != nil {
		party = fairshare.PartyOfIP(q.peer.Addr.Addr())
	}
	if q.set.holders.Wait(ctx, &q.change, party) != nil {
		return Later
	}
	q.writersGone = q.set.holders.WritersEnded()
	return q.AcquirePermit(ctx)
}
