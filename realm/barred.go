package realm

import (
	"context"
	"os"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// barred reports whether the caller certainly may not write to a file or a
// directory. Such a call is refused before any recall; otherwise a caller
// without any rights could make all clients return their delegations, again and
// again. Uncertain cases are left to the file system: the owner may write to a
// file regardless of its mode, the superuser may be refused for other reasons,
// and an ACL that lets other users write shows in the group's mode bits.
func (q *Request) barred(ctx context.Context, h vfs.Handle, t vfs.Type) bool {
	rights, attr, err := q.Export.FS.Access(ctx, &q.Cred, h, vfs.AccessModify)
	return err == nil && rights == 0 && attr.OK && attr.Type == t &&
		q.Cred.UID != 0 && q.Cred.UID != attr.UID && attr.Mode&0o022 == 0
}

// blinded is barred for reading: the owner may read a file regardless of its mode,
// and whoever may execute it.
func (q *Request) blinded(ctx context.Context, h vfs.Handle) bool {
	rights, attr, err := q.Export.FS.Access(ctx, &q.Cred, h, vfs.AccessRead|vfs.AccessExecute)
	return err == nil && rights == 0 && attr.OK && q.Cred.UID != 0 && q.Cred.UID != attr.UID
}

// asCallers reports whether file systems check the caller's identity: a daemon
// that is not root does everything as its own user.
var asCallers = os.Geteuid() == 0

// Stranger reports whether the caller certainly is neither the superuser nor
// the owner of the object with these attributes.
func (q *Request) Stranger(attr *vfs.MaybeAttr) bool {
	return asCallers && attr.OK && q.Cred.UID != 0 && q.Cred.UID != attr.UID
}

// mayTake returns an error if the caller certainly may not change a name
// in a directory, whether the name exists or not. In a sticky directory only
// the owner of the directory or of the object may.
func (q *Request) mayTake(ctx context.Context, dir vfs.Handle, object vfs.MaybeAttr) error {
	if q.barred(ctx, dir, vfs.TypeDir) {
		return Access
	}
	if !q.Stranger(&object) {
		return nil
	}
	const sticky = 0o1000
	_, attr, err := q.Export.FS.Access(ctx, &q.Cred, dir, vfs.AccessModify)
	if err == nil && attr.Mode&sticky != 0 && q.Stranger(&attr) {
		return Perm
	}
	return nil
}

// maySet returns an error if the caller certainly may not set the
// attributes. Mode, owner and group are the owner's to set, and so are times
// except the server's own time. The rest needs permission to write.
func (q *Request) maySet(ctx context.Context, h vfs.Handle, set *vfs.SetAttr) error {
	_, attr, err := q.Export.FS.Access(ctx, &q.Cred, h, vfs.AccessModify)
	switch {
	case err != nil || !q.Stranger(&attr):
		return nil
	case set.Mode != nil, set.UID != nil, set.GID != nil, set.AtimeHow == vfs.SetToClient, set.MtimeHow == vfs.SetToClient:
		return Perm
	case q.barred(ctx, h, attr.Type):
		return Access
	}
	return nil
}
