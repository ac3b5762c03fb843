package vfs

import "context"

// A Part is a regular file from Offset on. If File is not nil, it is Handle's file, open with the
// same FS for the access that an operation needs: the operation acts as its opener, and checks no
// rights. Otherwise the operation's caller needs the rights that Read and Write check. EINVAL means
// that the object is no regular file.
type Part struct {
	File   File
	Handle Handle
	Offset uint64 // bytes
}

// Advice says how a client will use part of a file, as in posix_fadvise(2).
type Advice uint8

// The values of Advice.
const (
	AdviseNormal Advice = iota
	AdviseSequential
	AdviseRandom
	AdviseWillNeed
	AdviseDontNeed
	AdviseNoReuse
)

// A Spacer is an FS that knows which parts of its files have storage. Changes
// are on stable storage when a method returns. EOPNOTSUPP means that the files
// have no such operation.
type Spacer interface {
	// Allocate allocates storage for n bytes, so that no later write to them fails with ENOSPC,
	// and extends the file if it ends before them. It changes no data. The caller needs the
	// right to write. A part that fails leaves the file's size as it was.
	Allocate(ctx context.Context, c *Cred, p Part, n uint64) error

	// Deallocate frees the storage of n bytes: they read as zeros. The file's size stays. The
	// caller needs the right to write.
	Deallocate(ctx context.Context, c *Cred, p Part, n uint64) error

	// Seek returns the offset of the next data or hole at or after the part's. Every file has a
	// hole at its end. eof reports that none but that end was found. ENXIO means that the file
	// ends before the part. The caller needs the right to read.
	Seek(ctx context.Context, c *Cred, p Part, hole bool) (off uint64, eof bool, err error)

	// Advise tells how n bytes, or with 0 all to the end, will be used. The
	// caller needs the right to read.
	Advise(ctx context.Context, c *Cred, p Part, n uint64, a Advice) error
}

// A Copier is an FS that copies between its own files without copying through the process's memory.
// EOPNOTSUPP means that it cannot copy between these two, which reading and writing still can.
type Copier interface {
	// CopyRange copies up to n bytes, as Write writes them if the caller writes Unstable, and
	// returns the number copied: 0 without an error at the source's end. Even with an error,
	// some were copied. It may copy fewer bytes at any time. The caller needs the right to read
	// the source and to write the target.
	CopyRange(ctx context.Context, c *Cred, from, to Part, n uint64) (copied uint64, err error)

	// CloneRange lets the target's n bytes share the storage of the source's, at
	// once, with the rights of CopyRange. They are on stable storage when
	// CloneRange returns. Offsets, and n unless it reaches the source's end, are
	// multiples of CloneAlign: otherwise CloneRange returns EINVAL. After EAGAIN the
	// caller may try again: readers have data of the target that a clone would change.
	CloneRange(ctx context.Context, c *Cred, from, to Part, n uint64) error

	// CloneAlign returns the alignment in bytes of CloneRange, or 0 if files
	// cannot share storage.
	CloneAlign() uint32
}
