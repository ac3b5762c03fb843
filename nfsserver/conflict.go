package nfsserver

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Clients may hold what others are about to change, by delegation counters
// (docs/delegation.md, Section 5). So every procedure that changes an object calls
// one of the functions here, or in naming.go, when nothing is left that would refuse
// it, and ends there with a status that is not NFS3_OK. The change lasts until the end
// of the request.

// beforeSetAttr says that an object is about to be changed by its handle, and waits for
// other clients that hold it. So do the next two.
func (q *request) beforeSetAttr(ctx context.Context, h vfs.Handle, set *vfs.SetAttr) nfs3.Status {
	if q.blind() {
		return nfs3.OK
	}
	if status := q.maySet(ctx, h, set); status != nfs3.OK {
		return status
	}
	return q.wait(ctx, h)
}

// beforeSetACL is beforeSetAttr for SETACL, which is for the owner.
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

// wait begins to change an object, and waits for those who hold it.
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

// blind tells whether nobody holds anything, and nobody will before the request ends.
func (q *request) blind() bool {
	return q.export.keys == nil || q.server.grants.Blind(&q.change)
}

// begin marks objects as being changed by a peer, and tells whether nothing has to be
// waited for.
func (q *request) begin(p *oncrpc.Peer, handles []vfs.Handle) (ready bool, status nfs3.Status) {
	ready = true
	for _, h := range handles {
		key, err := q.keyOf(h)
		switch {
		case errors.Is(err, syscall.EOPNOTSUPP): // so nobody can hold it
			continue
		case err != nil:
			return false, q.status(err)
		}
		ready = q.server.grants.Begin(&q.change, p, key) && ready
	}
	return ready, nfs3.OK
}

// keyOf returns the octets that an object has in common with itself, however it was
// found. They are valid until the next call.
func (q *request) keyOf(h vfs.Handle) (key []byte, err error) {
	q.key, err = q.export.keys.AppendKey(q.key[:0], h)
	return q.key, err
}

// await waits for those who hold what is to be changed. Meanwhile the call takes
// nothing that another would need which ends the wait: neither a permit, nor one of
// its connection's places.
func (q *request) await(ctx context.Context) nfs3.Status {
	q.rest()
	q.reply.StepAside()
	if err := q.server.grants.Wait(ctx, &q.change); err != nil {
		return nfs3.ErrJukebox
	}
	return q.work(ctx)
}
