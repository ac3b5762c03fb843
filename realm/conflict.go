package realm

import (
	"context"
	"errors"
	"syscall"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Clients may hold delegations of objects that other clients are about to
// change: by delegation counters (docs/delegation.md, Section 5), or of version 4
// (package recall). Every procedure that changes an object must therefore call one
// of the functions here, or in naming.go, after all other checks, and must end if
// that returns an error. The announced change lasts until the end of the request.

// change is a change of a request, as both kinds of delegations know it.
type change struct {
	grants  delegserver.Change
	holders recall.Change
}

// BeforeSetAttr announces a change of an object given by its handle, and waits
// for other clients that hold a delegation. So do the next three.
func (q *Request) BeforeSetAttr(ctx context.Context, h vfs.Handle, set *vfs.SetAttr) error {
	if q.blind() {
		return nil
	}
	if err := q.maySet(ctx, h, set); err != nil {
		return err
	}
	return q.wait(ctx, h)
}

// BeforeSetACL is BeforeSetAttr for SETACL, which only the owner may use.
func (q *Request) BeforeSetACL(ctx context.Context, h vfs.Handle) error {
	return q.BeforeSetAttr(ctx, h, &vfs.SetAttr{Mode: new(uint32)})
}

// BeforeSetXattr is BeforeSetAttr for a change of extended attributes, which
// needs permission to write.
func (q *Request) BeforeSetXattr(ctx context.Context, h vfs.Handle) error {
	return q.BeforeSetAttr(ctx, h, &vfs.SetAttr{})
}

// BeforeWrite is BeforeSetAttr for WRITE.
func (q *Request) BeforeWrite(ctx context.Context, h vfs.Handle) error {
	switch {
	case !q.realm.trusted():
		return q.BeforeStateWrite(ctx, h)
	case q.barred(ctx, h, vfs.TypeReg):
		return Access
	}
	return Later
}

// BeforeStateWrite is BeforeWrite by an open or a delegation of version 4, which has
// nothing to fear from what clients may reclaim: it does not regard Config.Trusted.
func (q *Request) BeforeStateWrite(ctx context.Context, h vfs.Handle) error {
	switch {
	case q.blindNow():
		return nil
	case q.barred(ctx, h, vfs.TypeReg):
		return Access
	}
	return q.waitNow(ctx, h)
}

// EndHeld ends the changes that the call has announced as far as holders matter: the
// caller's client may hold the objects now.
func (q *Request) EndHeld() { q.realm.holders.Done(&q.change.holders) }

// BeforeOpenWrite is BeforeWrite for an open file, and for opening one: the
// file system has checked the caller's rights. It does not regard
// Config.Trusted: after a restart, version 4 decides who may open a file.
func (q *Request) BeforeOpenWrite(ctx context.Context, h vfs.Handle) error {
	if q.blindNow() {
		return nil
	}
	return q.waitNow(ctx, h)
}

// wait announces a change of an object, and waits for the holders of
// delegations.
func (q *Request) wait(ctx context.Context, h vfs.Handle) error {
	if q.realm.trusted() {
		return Later
	}
	return q.waitNow(ctx, h)
}

// waitNow is wait without regard to Config.Trusted.
func (q *Request) waitNow(ctx context.Context, h vfs.Handle) error {
	for {
		ready, err := q.begin(q.peer, []vfs.Handle{h})
		if ready || err != nil {
			return err
		}
		if err := q.await(ctx); err != nil {
			return err
		}
	}
}

// blind reports whether there is no delegation, and none will be granted before
// the request ends.
func (q *Request) blind() bool { return !q.realm.trusted() && q.blindNow() }

// blindNow is blind without regard to Config.Trusted.
func (q *Request) blindNow() bool {
	return q.Export.Keys == nil || q.realm.holders.Blind(&q.change.holders) && q.realm.grants.Blind(&q.change.grants)
}

// trusted reports whether clients may trust delegations of version 4 that an
// earlier server has granted.
func (s *Realm) trusted() bool { return s.isTrusted != nil && s.isTrusted() }

// begin announces that a peer changes objects, and reports whether it may do so
// without waiting.
func (q *Request) begin(p *oncrpc.Peer, handles []vfs.Handle) (ready bool, err error) {
	ready = true
	for _, h := range handles {
		key, err := q.Key(h)
		switch {
		case errors.Is(err, syscall.EOPNOTSUPP): // so it has no delegations
			continue
		case err != nil:
			return false, err
		}
		client := q.Client
		if p == nil {
			client = 0
		}
		held := q.realm.holders.Begin(&q.change.holders, client, key)
		ready = q.realm.grants.Begin(&q.change.grants, p, key) && held && ready
	}
	return ready, nil
}

// Key returns the key of an object, which is the same for all its handles.
// The key is valid until the next call of Key.
func (q *Request) Key(h vfs.Handle) (key []byte, err error) {
	q.key, err = q.Export.Keys.AppendKey(q.key[:0], h)
	return q.key, err
}

// AppendObject appends a name of an object to b: its key or, without one, its filehandle.
// All protocols know the state of the object by this name.
func (q *Request) AppendObject(b []byte, h vfs.Handle) ([]byte, error) {
	if q.Export.Keys != nil {
		key, err := q.Key(h)
		if !errors.Is(err, syscall.EOPNOTSUPP) {
			return append(append(b, 'k'), key...), err
		}
	}
	return append(append(b, 'h'), q.Handle(&h)...), nil
}

// await waits for the holders of delegations. Meanwhile the call occupies
// neither a permit nor a slot of its connection, because the calls that end the
// wait need them.
func (q *Request) await(ctx context.Context) error {
	q.Rest()
	q.reply.StepAside()
	var party fairshare.Name
	if q.peer != nil {
		party = fairshare.PartyOfIP(q.peer.Addr.Addr())
	}
	err := q.realm.holders.Wait(ctx, &q.change.holders, party)
	if err == nil {
		err = q.realm.grants.Wait(ctx, &q.change.grants, q.peer)
	}
	if err != nil {
		return Later
	}
	q.gone = q.realm.holders.WritersGone()
	return q.Work(ctx)
}
