package nfsserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestStatusOf checks Linux's numbers against RFC 1813's, most of which are equal.
func TestStatusOf(t *testing.T) {
	for errno, want := range map[syscall.Errno]nfs3.Status{
		1: 1, 2: 2, 5: 5, 6: 6, 13: 13, 17: 17, 18: 18, 19: 19, 20: 20, 21: 21, 22: 22, 27: 27, 28: 28, 30: 30, 31: 31,
		syscall.ENAMETOOLONG: 63, syscall.ENOTEMPTY: 66, syscall.EDQUOT: 69, syscall.ESTALE: 70, syscall.EREMOTE: 71,
		syscall.EOPNOTSUPP: 10004, syscall.ENOSYS: 10004,
		syscall.ETIMEDOUT: 10008, syscall.EAGAIN: 10008, syscall.ENOMEM: 10008, syscall.EINTR: 10008,
		syscall.EMFILE: 10008, syscall.ENFILE: 10008,
		syscall.E2BIG: 27, syscall.ELOOP: 22, syscall.EBUSY: 13, syscall.ENOKEY: 1, syscall.ETXTBSY: 5,
		syscall.EUCLEAN: 5, syscall.EBADMSG: 5, syscall.EREMOTEIO: 5,
	} {
		got, known := statusOf(fmt.Errorf("wrapped: %w", errno))
		assert.Equal(t, want, got, errno.Error())
		assert.True(t, known, errno.Error())
		assert.NotContains(t, got.String(), "(", "only the standard's values")
	}
	assert.Len(t, errnoStatus, 36, "each is in the table above")
	for err, want := range map[error]nfs3.Status{
		nil: 0, vfs.ErrBadHandle: 10001, vfs.ErrNotSync: 10002, vfs.ErrBadCookie: 10003, vfs.ErrBadType: 10007,
		context.Canceled: 10008, context.DeadlineExceeded: 10008,
		nfs3.ErrJukebox: 10008, nfs3.ErrServerFault: 10006,
		exportset.BadHandle: 10001, exportset.Stale: 70, exportset.Access: 13, exportset.Perm: 1, exportset.ReadOnly: 30, exportset.XDev: 18,
		exportset.Later: 10008,
	} {
		if err != nil {
			err = fmt.Errorf("wrapped: %w", err)
		}
		got, known := statusOf(err)
		assert.Equal(t, want, got, "%v", err)
		assert.True(t, known)
	}
	for _, err := range []error{syscall.EDOM, io.EOF, errors.New("something")} {
		got, known := statusOf(err)
		assert.Equal(t, nfs3.ErrIO, got)
		assert.False(t, known)
	}
}

func TestMountStatus(t *testing.T) {
	for from, want := range map[nfs3.Status]mount3.Status{
		nfs3.ErrNoEnt: mount3.ErrNoEnt, nfs3.ErrStale: mount3.ErrNoEnt,
		nfs3.ErrAcces: mount3.ErrAcces, nfs3.ErrPerm: mount3.ErrAcces,
		nfs3.ErrNotDir: mount3.ErrNotDir, nfs3.ErrInval: mount3.ErrNotDir,
		nfs3.ErrNameTooLong: mount3.ErrNameTooLong, nfs3.ErrNXIO: mount3.ErrIO,
	} {
		assert.Equal(t, want, mountStatus(from))
	}
}
