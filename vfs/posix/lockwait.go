//go:build linux

package posix

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.LockWatcher = (*FS)(nil)

// LockWaited implements vfs.LockWatcher by /proc/locks, for an object that FileLocks have locked. Device numbers there are not always stat's
// (Btrfs), so that inode number on any file system counts. A process that only tries to lock
// (F_SETLK) leaves no trace, nor does one that waits for a FUSE or network file system, which may
// hold its locks elsewhere.
func (f *FS) LockWaited(key []byte) (bool, error) {
	switch {
	case !f.traits.local:
		return false, unix.EOPNOTSUPP
	case len(key) < 8:
		return false, unix.EINVAL
	}
	return waitedLocks.isWaiting(binary.BigEndian.Uint64(key[len(key)-8:]))
}

// waitedLocks is what /proc/locks has said last.
var waitedLocks = lockWaits{readFile: os.ReadFile}

// lockWaits are the inode numbers on which host processes wait for an open file description's lock,
// such as FileLocks'.
type lockWaits struct {
	readFile func(string) ([]byte, error)

	mu     sync.Mutex
	read   time.Time
	inodes map[uint64]struct{}
	err    error
}

// lockWaitsAge is the time for which /proc/locks counts as fresh: checking many objects reads it
// once.
const lockWaitsAge = time.Second

// isWaiting reports whether a process waits for a lock on an inode. A process that has waited may have
// stopped, and clients lose their locks if one waits, so that counts only if it has just been read.
func (w *lockWaits) isWaiting(ino uint64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, waits := w.inodes[ino]
	if waits || w.read.IsZero() || time.Since(w.read) > lockWaitsAge {
		w.readLocks()
		_, waits = w.inodes[ino]
	}
	return waits, w.err
}

func (w *lockWaits) readLocks() {
	var b []byte
	w.read = time.Now()
	b, w.err = w.readFile("/proc/locks")
	var shown bool
	if w.inodes, shown = parseLocks(b); w.err == nil && !shown {
		w.err = errLocksHidden
	}
}

// errLocksHidden reports that /proc/locks does not show this process's own locks: a container may
// have another file in its place.
var errLocksHidden = errors.New("posix: /proc/locks shows no lock of an open file description")

// parseLocks returns the inodes of the waiters in /proc/locks (proc_locks(5)): the lines with an
// arrow, which follow the conflicting lock's. shown reports whether any open file description has a
// lock there. Such locks belong to no process, so that the kernel shows them, and all their waiters,
// in every PID namespace.
func parseLocks(b []byte) (inodes map[uint64]struct{}, shown bool) {
	inodes = make(map[uint64]struct{})
	waited := false // the last lock belongs to an open file description
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) < 8 {
			continue
		}
		if string(fields[1]) != "->" {
			waited = string(fields[1]) == "OFDLCK"
			shown = shown || waited
			continue
		}
		at := fields[6] // major:minor:inode
		if ino, err := strconv.ParseUint(string(at[bytes.LastIndexByte(at, ':')+1:]), 10, 64); err == nil && waited {
			inodes[ino] = struct{}{}
		}
	}
	return inodes, shown
}
