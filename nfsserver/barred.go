package nfsserver

import (
	"context"
	"os"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// barred tells whether the caller certainly may not write to a file or a directory: the
// call is refused then as it stands, or else who may change nothing could have everybody
// give back what they hold, over and over. What is not certain is left to the file
// system. Its owner may write to a file whatever its mode is, and the superuser may be
// refused for other reasons; and where an ACL lets others write, the bits of the group
// show it.
func (q *request) barred(ctx context.Context, h vfs.Handle, t vfs.Type) bool {
	rights, attr, err := q.export.fs.Access(ctx, &q.cred, h, vfs.AccessModify)
	return err == nil && rights == 0 && attr.OK && attr.Type == t &&
		q.cred.UID != 0 && q.cred.UID != attr.UID && attr.Mode&0o022 == 0
}

// asCallers tells whether file systems look at who the caller is: a daemon that is not
// root does everything in its own name.
var asCallers = os.Geteuid() == 0

// stranger tells whether the caller certainly is neither the superuser nor the owner of
// what has these attributes.
func (q *request) stranger(attr *vfs.MaybeAttr) bool {
	return asCallers && attr.OK && q.cred.UID != 0 && q.cred.UID != attr.UID
}

// mayTake tells by a status whether the caller certainly may not change a name of a
// directory that stands for an object, or for none. In a sticky directory that is for the
// owner of either.
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

// maySet tells by a status whether the caller certainly may not set attributes. Mode,
// owner and group are for the owner, and so are times but for the server's own; the rest
// is for who may write.
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
