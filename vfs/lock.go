package vfs

import (
	"context"

	"github.com/nfsrdma/nfsrdma/locks"
)

// A Locker is an FS with files that other processes lock too: the locks of a
// server and of these processes are in each other's way.
type Locker interface {
	// OpenLocks returns a holder for the server's locks of a regular file. The
	// server must have no other holder for the same file: the locks of two holders
	// are in each other's way. OpenLocks asks for no caller's rights, because a
	// caller that may lock a file has it open. It returns EINVAL for other
	// objects, EMFILE if there is no room for another holder, and EOPNOTSUPP if
	// the host lets the server lock no byte of the file.
	OpenLocks(ctx context.Context, h Handle) (FileLocks, error)
}

// FileLocks are the byte-range locks that a server holds of one file, for all
// its clients together. The file, once open, is locked whether or not its name
// and its FS remain. Calls must not run at the same time.
type FileLocks interface {
	// SetLock makes kind the kind of lock of all bytes in r. It returns false,
	// and changes nothing, if another process has a lock in the way; that
	// cannot be with locks.None, nor with a weaker kind than before. It returns
	// EOPNOTSUPP if the host cannot hold the lock at all.
	SetLock(r locks.Range, kind locks.Kind) (bool, error)

	// TestLock returns a lock of another process that would be in the way of
	// SetLock, or locks.None.
	TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, error)

	// Close unlocks all bytes.
	Close()
}
