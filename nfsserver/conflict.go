package nfsserver

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Clients may hold delegations of objects that other clients are about to
// change (docs/delegation.md, Section 5). Every procedure that changes an
// object must therefore call one of the functions here, or in naming.go, after
// all other checks, and must end if the status is not NFS3_OK. The announced
// change lasts until the end of the request.

// beforeSetAttr announces a change of an object given by its handle, and waits
// for other clients that hold a delegation. So do the next two.
func (q *request) beforeSetAttr(ctx context.Context, h vfs.Handle, set *vfs.SetAttr) nfs3.Status {
	if q.blind() {
		return nfs3.OK
	}
	if status := q.maySet(ctx, h, set); status != nfs3.OK {
		return status
	}
	return q.wait(ctx, h)
}

// beforeSetACL is beforeSetAttr for SETACL, which only the owner may use.
func (q *request) beforeSetACL(ctx context.Context, h vfs.Handle) nfs3.Status {
	return q.beforeSetAttr(ctx, h, &vfs.SetAttr{Mode: new(uint32)})
}

// beforeWrite is beforeSetAttr for WRITE.
func (q *request) beforeWrite(ctx context.Context, h vfs.Handle) nfs3.Status {
	switch {
	case q.blind():
		return nfs3.OK
	case q.barred(ctx, h, vfs.TypeReg):
		return nfs3.ErrAcces
	}
	return q.wait(ctx, h)
}

// wait announces a change of an object, and waits for the holders of
// delegations.
func (q *request) wait(ctx context.Context, h vfs.Handle) nfs3.Status {
	for {
		ready, status := q.begin(q.call.Peer, []vfs.Handle{h})
		if ready || status != nfs3.OK {
			return status
		}
		if status := q.await(ctx); status != nfs3.OK {
			return status
		}
	}
}

// blind reports whether there is no delegation, and none will be granted before
// the request ends.
func (q *request) blind() bool {
	return q.export.keys == nil || q.server.grants.Blind(&q.change)
}

// begin announces that a peer changes objects, and reports whether it may do so
// without waiting.
func (q *request) begin(p *oncrpc.Peer, handles []vfs.Handle) (ready bool, status nfs3.Status) {
	ready = true
	for _, h := range handles {
		key, err := q.keyOf(h)
		switch {
		case errors.Is(err, syscall.EOPNOTSUPP): // so it has no delegations
			continue
		case err != nil:
			return false, q.status(err)
		}
		ready = q.server.grants.Begin(&q.change, p, key) && ready
	}
	return ready, nfs3.OK
}

// keyOf returns the key of an object, which is the same for all its handles.
// The key is valid until the next call of keyOf.
func (q *request) keyOf(h vfs.Handle) (key []byte, err error) {
	q.key, err = q.export.keys.AppendKey(q.key[:0], h)
	return q.key, err
}

// await waits for the holders of delegations. Meanwhile the call occupies
// neither a permit nor a slot of its connection, because the calls that end the
// wait need them.
func (q *request) await(ctx context.Context) nfs3.Status {
	q.rest()
	q.reply.StepAside()
	if err := q.server.grants.Wait(ctx, &q.change, q.call.Peer); err != nil {
		return nfs3.ErrJukebox
	}
	return q.work(ctx)
}
