//go:build linux

package posix

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// leased counts the leases of all FS of the process, because RLIMIT_NOFILE
// bounds them together.
var leased atomic.Int64

// leases are the files of an FS on which the kernel has given leases (fcntl(2)).
// A leased object is pinned: one descriptor is both the object's and the lease's.
type leases struct {
	max    int64
	meant  bool      // every change of a file breaks its lease
	denied sync.Once // to log it once

	ending sync.RWMutex // read-locked while a holder of F_WRLCK leaves

	addWatch func(fd int, path string, mask uint32) (int, error) // unix.InotifyAddWatch, replaced in tests

	mu       sync.Mutex
	byFD     map[int]*lease
	due      []int     // descriptors that sweep must still check, possibly no longer in byFD
	watcher  *watcher  // nil until the first lease
	observer *observer // nil until the first lease of vfs.LeaseAll
}

// A lease is the kernel's lease of one object, for all its holders.
type lease struct {
	o       *object
	kind    int // F_RDLCK, or F_WRLCK for one holder alone
	holders []*leaseHolder
	broken  bool // the holders have been notified; no holder is added
}

type leaseHolder struct {
	of     *lease // nil: the lease is over
	mark   *mark  // nil: the scope is vfs.LeaseData
	told   bool   // broken has been called
	broken func()
}

// tell notifies the holder once. leases.mu is held.
func (h *leaseHolder) tell() {
	if !h.told {
		h.told = true
		go h.broken()
	}
}

// leave removes a holder. It returns the lease if that was the last one, or
// nil.
func (l *leases) leave(who *leaseHolder) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := who.of
	if le == nil {
		return nil
	}
	who.of = nil
	l.unobserve(who)
	le.holders = slices.DeleteFunc(le.holders, func(h *leaseHolder) bool { return h == who })
	if len(le.holders) > 0 {
		return nil
	}
	l.end(le)
	return le
}

// has reports whether o has a lease with a holder, of which the kernel may know
// nothing more.
func (l *leases) has(o *object) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byFD[o.fd] != nil
}

// end gives the kernel's lease back. l.mu is held.
func (l *leases) end(le *lease) {
	delete(l.byFD, le.o.fd)
	leased.Add(-1)
	_ = setLease(le.o.fd, unix.F_UNLCK) // fails if the kernel has already taken back a broken lease
}

// tell notifies the holders of the lease on fd, if it is broken. The signal may
// belong to an earlier lease on a descriptor with the same number.
func (l *leases) tell(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.byFD[fd]
	if le == nil || le.broken || leaseOf(fd) == le.kind {
		return
	}
	le.tell()
}

// tell notifies the holders that the lease is broken. leases.mu is held.
func (le *lease) tell() {
	le.broken = true
	for _, h := range le.holders {
		h.tell()
	}
}

// tellAll calls tell for all leases, after signals were lost.
func (l *leases) tellAll() {
	l.mu.Lock()
	fds := make([]int, 0, len(l.byFD))
	for fd := range l.byFD {
		fds = append(fds, fd)
	}
	l.mu.Unlock()
	for _, fd := range fds {
		l.tell(fd)
	}
}

// sweep runs at each tick and checks some leased files. Removing a file breaks
// no lease, and its data stays on the disk while the file is open here; so
// sweep notifies the holders.
func (l *leases) sweep() {
	l.mu.Lock()
	if len(l.due) == 0 {
		for fd := range l.byFD {
			l.due = append(l.due, fd)
		}
	}
	rest := max(len(l.due)-maxLeaseSweep, 0)
	fds := l.due[rest:]
	l.due = slices.Clip(l.due[:rest])
	l.mu.Unlock()
	for _, fd := range fds {
		if nameless(fd) {
			l.removed(fd)
		}
	}
}

// removed notifies the holders of the lease on fd if the file has no name any
// more. It checks again under the lock, because fd may have become another
// file.
func (l *leases) removed(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if le := l.byFD[fd]; le != nil && !le.broken && nameless(fd) {
		le.tell()
	}
}

func nameless(fd int) bool {
	var st unix.Statx_t
	return statFD(fd, &st) == nil && st.Nlink == 0
}

// setLease puts a lease on fd, or gives it back.
func setLease(fd, kind int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
	return err
}

// leaseOf returns the lease that fd has, or the one to downgrade to while it is
// being broken.
func leaseOf(fd int) int {
	kind, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0)
	if err != nil {
		return unix.F_UNLCK
	}
	return kind
}

// LeaseBreakTime returns how long the host blocks a process that breaks a
// lease, before the kernel takes the lease from its holder
// (/proc/sys/fs/lease-break-time). 0 means forever.
func LeaseBreakTime() (time.Duration, error) {
	b, err := os.ReadFile("/proc/sys/fs/lease-break-time")
	if err != nil {
		return 0, err
	}
	s, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("lease-break-time: %w", err)
	}
	return time.Duration(s) * time.Second, nil
}
