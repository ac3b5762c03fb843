package nfsserver

import (
	"context"
	"os"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// barred reports whether the caller certainly may not write to a file or a
// directory. Such a call is refused before any recall; otherwise a caller
// without any rights could make all clients return their delegations, again and
// again. Uncertain cases are left to the file system: the owner may write to a
// file regardless of its mode, the superuser may be refused for other reasons,
// and an ACL that lets other users write shows in the group's mode bits.
func (q *request) barred(ctx context.Context, h vfs.Handle, t vfs.Type) bool {
	rights, attr, err := q.export.fs.Access(ctx, &q.cred, h, vfs.AccessModify)
	return err == nil && rights == 0 && attr.OK && attr.Type == t &&
		q.cred.UID != 0 && q.cred.UID != attr.UID && attr.Mode&0o022 == 0
}

// asCallers reports whether file systems check the caller's identity: a daemon
// that is not root does everything as its own user.
var asCallers = os.Geteuid() == 0

// stranger reports whether the caller certainly is neither the superuser nor
// the owner of the object with these attributes.
func (q *request) stranger(attr *vfs.MaybeAttr) bool {
	return asCallers && attr.OK && q.cred.UID != 0 && q.cred.UID != attr.UID
}

// mayTake returns an error status if the caller certainly may not change a name
// in a directory, whether the name exists or not. In a sticky directory only
// the owner of the directory or of the object may.
func (q *request) mayTake(ctx context.Context, dir vfs.Handle, object vfs.MaybeAttr) nfs3.Status {
	if q.barred(ctx, dir, vfs.TypeDir) {
		return nfs3.ErrAcces
	}
	if !q.stranger(&object) {
		return nfs3.OK
	}
	const sticky = 0o1000
	_, attr, err := q.export.fs.Access(ctx, &q.cred, dir, vfs.AccessModify)
	if err == nil && attr.Mode&sticky != 0 && q.stranger(&attr) {
		return nfs3.ErrPerm
	}
	return nfs3.OK
}

// maySet returns an error status if the caller certainly may not set the
// attributes. Mode, owner and group are the owner's to set, and so are times
// except the server's own time. The rest needs permission to write.
func (q *request) maySet(ctx context.Context, h vfs.Handle, set *vfs.SetAttr) nfs3.Status {
	_, attr, err := q.export.fs.Access(ctx, &q.cred, h, vfs.AccessModify)
	switch {
	case err != nil || !q.stranger(&attr):
		return nfs3.OK
	case set.Mode != nil, set.UID != nil, set.GID != nil, set.AtimeHow == vfs.SetToClient, set.MtimeHow == vfs.SetToClient:
		return nfs3.ErrPerm
	case q.barred(ctx, h, attr.Type):
		return nfs3.ErrAcces
	}
	return nfs3.OK
}
