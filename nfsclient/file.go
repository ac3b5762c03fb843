package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// errNoProgress is the error if the server transfers no data and reports
// success. Without this check, the client would repeat the call forever.
var errNoProgress = errors.New("the server transferred no data and reported no error")

// errNegativeOffset is the error for a negative offset.
var errNegativeOffset = fmt.Errorf("negative offset: %w", syscall.EINVAL)

// A File is a file on the server, identified only by its handle.
type File struct {
	fs     *FS
	handle nfs3.FH
}

// Handle returns f's handle.
func (f *File) Handle() nfs3.FH { return f.handle }

// As returns a copy of f whose calls carry cred. It copies cred.
func (f *File) As(cred rpcmsg.Cred) *File {
	fs := *f.fs
	fs.c = fs.c.As(cred)
	return &File{fs: &fs, handle: f.handle}
}

// Stat returns f's attributes.
func (f *File) Stat(ctx context.Context) (nfs3.Attr, error) { return f.fs.c.GetAttr(ctx, f.handle) }

// SetAttr changes f's attributes.
func (f *File) SetAttr(ctx context.Context, attr nfs3.SetAttr) error {
	_, err := f.fs.c.SetAttr(ctx, &nfs3.SetAttrArgs{Object: f.handle, Attr: attr})
	return err
}

// Truncate sets f's size to size bytes.
func (f *File) Truncate(ctx context.Context, size uint64) error {
	return f.SetAttr(ctx, nfs3.SetAttr{Size: nfs3.OptUint64{Set: true, Value: size}})
}

// Sync puts on stable storage all data that any client wrote to f. Data written
// by WriteAt and CopyFrom are stable already.
func (f *File) Sync(ctx context.Context) error {
	_, err := f.fs.c.Commit(ctx, f.handle, 0, 0)
	return err
}
