package nfsserver

import (
	"context"

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
