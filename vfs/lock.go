package vfs

import (
	"context"

	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A Locker is an FS with files that other processes lock too: their locks conflict with the
// server's.
type Locker interface {
	// OpenLocks returns a holder for the server's locks on a regular file. The server must have
	// no other holder for the same file: two holders' locks conflict. OpenLocks checks no
	// caller's rights, because a caller that may lock a file has it open. It returns EINVAL for
	// other objects, EMFILE if there are too many holders, and EOPNOTSUPP if the host does not
	// let the server lock the file.
	OpenLocks(ctx context.Context, h Handle) (FileLocks, error)
}

// A LockWatcher is a Locker that knows which locks other processes on the host wait for.
type LockWatcher interface {
	Locker

	// LockWaited reports whether another process waits for a lock on the object with a key
	// (Identifier), which FileLocks have locked. It does not wait for storage, and may be called at any time.
	LockWaited(key []byte) (bool, error)
}

// FileLocks are the byte-range locks that a server holds on one file, for all its clients together.
// The file, once open, is locked whether or not its name and its FS remain. Calls must not run at
// the same time.
type FileLocks interface {
	// SetLock sets the lock on all bytes in r to kind. It returns false, and changes nothing,
	// if another process has a conflicting lock; that cannot be with locks.None, nor with a
	// weaker kind than before. It returns EOPNOTSUPP if the host cannot hold the lock at all.
	SetLock(r locks.Range, kind locks.Kind) (bool, error)

	// TestLock returns another process's lock that conflicts with SetLock, or locks.None.
	TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, error)

	// Close unlocks all bytes.
	Close()
}
