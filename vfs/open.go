package vfs

import (
	"context"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// An OpenAccess is a set of access modes for an open.
type OpenAccess uint8

// The bits of OpenAccess.
const (
	OpenRead OpenAccess = 1 << iota
	OpenWrite
)

// An Opener is an FS that keeps files open. The rights to an open file are those at open time, and
// a removed file stays until it is closed.
type Opener interface {
	// OpenFile opens a regular file for access. c needs the rights that Read
	// and Write check. EINVAL means that the object is no regular file.
	OpenFile(ctx context.Context, c *Cred, h Handle, access OpenAccess) (Opened, error)

	// CreateFile is Create, and opens the file. A file's creator gets any access, also if the
	// mode denies it. An existing file is opened as by OpenFile.
	CreateFile(ctx context.Context, c *Cred, dir Handle, name string, how CreateHow, access OpenAccess) (Made, Opened, error)
}

// Opened is an open file: a File for each access bit. Each must be closed. A nil File means that
// too many files are open: the caller must use the handle.
type Opened struct{ Read, Write File }

// Close closes the Files.
func (o *Opened) Close() {
	for _, f := range []File{o.Read, o.Write} {
		if f != nil {
			f.Close()
		}
	}
}

// A File is a file that is open for reading or for writing. Its methods check no rights, and act as
// the caller that opened it. They are safe for concurrent use, except Close. Methods for the other
// access return EBADF.
type File interface {
	// Read is FS.Read.
	Read(ctx context.Context, p []byte, off uint64) (n int, eof bool, err error)

	// Map is Mapper.Map. It returns nothing if the FS is no Mapper.
	Map(ctx context.Context, off uint64, n int) (b *buf.Buf, eof bool, err error)

	// Write is FS.Write.
	Write(ctx context.Context, p []byte, off uint64, how Stable) (n int, done Stable, err error)

	// Commit is FS.Commit: it puts all writers' data on stable storage.
	Commit(ctx context.Context, off uint64, count uint32) error

	// SetSize is FS.SetAttr for the size.
	SetSize(ctx context.Context, size uint64) error

	// Close releases the File. Data that is lost afterwards shows in FS.WriteVerifier. No other
	// method may be running, but memory that Map has lent stays valid.
	Close()
}
