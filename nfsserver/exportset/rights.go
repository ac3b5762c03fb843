package exportset

import (
	"context"
	"os"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// isWriteDenied reports whether the caller certainly may not write to a file or a directory.
// Such a call is rejected before any recall; otherwise a caller without any rights could make
// all clients return their delegations, again and again. Uncertain cases are left to the file
// system: the owner may write to a file regardless of its mode, the superuser may be rejected
// for other reasons, and an ACL that lets other users write shows in the mode's group bits.
func (q *Request) isWriteDenied(ctx context.Context, h vfs.Handle, t vfs.Type) bool {
	rights, attr, err := q.Export.FS.Access(ctx, &q.Cred, h, vfs.AccessModify)
	return err == nil && rights == 0 && attr.OK && attr.Type == t &&
		q.Cred.UID != 0 && q.Cred.UID != attr.UID && attr.Mode&0o022 == 0
}

// isReadDenied reports whether the caller certainly may not read an object: the owner may read
// a file regardless of its mode, and so may callers who may execute it.
func (q *Request) isReadDenied(ctx context.Context, h vfs.Handle) bool {
	rights, attr, err := q.Export.FS.Access(ctx, &q.Cred, h, vfs.AccessRead|vfs.AccessExecute)
	return err == nil && rights == 0 && attr.OK && q.Cred.UID != 0 && q.Cred.UID != attr.UID
}

// runsAsRoot reports whether file systems check the caller's identity: a daemon that is not
// root does everything as its own user.
var runsAsRoot = os.Geteuid() == 0

// IsStranger reports whether the caller certainly is neither the superuser nor the owner of the
// object with these attributes.
func (q *Request) IsStranger(attr *vfs.MaybeAttr) bool {
	return runsAsRoot && attr.OK && q.Cred.UID != 0 && q.Cred.UID != attr.UID
}

// checkNameChange returns an error if the caller certainly may not change a name in a
// directory, whether the name exists or not. In a sticky directory only the owner of the
// directory or of the object may change it.
func (q *Request) checkNameChange(ctx context.Context, dir vfs.Handle, object vfs.MaybeAttr) error {
	if q.isWriteDenied(ctx, dir, vfs.TypeDir) {
		return Access
	}
	if !q.IsStranger(&object) {
		return nil
	}
	const sticky = 0o1000
	_, attr, err := q.Export.FS.Access(ctx, &q.Cred, dir, vfs.AccessModify)
	if err == nil && attr.Mode&sticky != 0 && q.IsStranger(&attr) {
		return Perm
	}
	return nil
}

// checkSetAttr returns an error if the caller certainly may not set the attributes. Only the
// owner may set mode, owner and group, and times other than the server's current time. The rest
// requires permission to write.
func (q *Request) checkSetAttr(ctx context.Context, h vfs.Handle, set *vfs.SetAttr) error {
	_, attr, err := q.Export.FS.Access(ctx, &q.Cred, h, vfs.AccessModify)
	switch {
	case err != nil || !q.IsStranger(&attr):
		return nil
	case set.Mode != nil, set.UID != nil, set.GID != nil, set.AtimeHow == vfs.SetToClient, set.MtimeHow == vfs.SetToClient:
		return Perm
	case q.isWriteDenied(ctx, h, attr.Type):
		return Access
	}
	return nil
}
