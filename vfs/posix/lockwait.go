//go:build linux

package posix

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.LockWatcher = (*FS)(nil)

// LockWaited implements vfs.LockWatcher by /proc/locks. Device numbers there are not always stat's
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
var waitedLocks lockWaits

// lockWaits are the inode numbers on which host processes wait for an open file description's lock,
// such as FileLocks'.
type lockWaits struct {
	mu     sync.Mutex
	read   time.Time
	inodes map[uint64]struct{}
	err    error
}

// lockWaitsAge is the time for which /proc/locks counts as fresh: checking many objects reads it
// once.
const lockWaitsAge = time.Second

func (w *lockWaits) isWaiting(ino uint64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.read.IsZero() || now.Sub(w.read) > lockWaitsAge {
		var b []byte
		b, w.err = os.ReadFile("/proc/locks")
		w.read, w.inodes = now, parseLocks(b)
	}
	_, ok := w.inodes[ino]
	return ok, w.err
}

// parseLocks returns the inodes of the waiters in /proc/locks (proc_locks(5)): the lines with an
// arrow, which follow the conflicting lock's.
func parseLocks(b []byte) map[uint64]struct{} {
	inodes := make(map[uint64]struct{})
	waited := false // the last lock belongs to an open file description
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) < 8 {
			continue
		}
		if string(fields[1]) != "->" {
			waited = string(fields[1]) == "OFDLCK"
			continue
		}
		at := fields[6] // major:minor:inode
		if ino, err := strconv.ParseUint(string(at[bytes.LastIndexByte(at, ':')+1:]), 10, 64); err == nil && waited {
			inodes[ino] = struct{}{}
		}
	}
	return inodes
}
