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

	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/leasesignal"
)

// leasedFDs counts the leases in the process, because RLIMIT_NOFILE bounds them together.
var leasedFDs atomic.Int64

// leases are an FS's files on which the kernel has granted leases (fcntl(2)). A leased object is
// pinned: one descriptor is both the object's and the lease's.
type leases struct {
	max     int64
	allowed bool      // every change to a file breaks its lease
	denied  sync.Once // to log it once

	leaving sync.RWMutex // read-locked while a write lease is released

	addWatch func(fd int, path string, mask uint32) (int, error) // unix.InotifyAddWatch, replaced in tests

	mu        sync.Mutex
	byFD      map[int]*lease
	unchecked []int                // descriptors that checkLeased must still check, possibly no longer in byFD
	watcher   *leasesignal.Watcher // nil until the first lease
	observer  *inotifyWatcher      // nil until the first vfs.LeaseAll
}

// A lease is the kernel's lease on one object, for all its holders.
type lease struct {
	o       *object
	kind    int // F_RDLCK, or F_WRLCK for one holder alone
	holders []*leaseHolder
	broken  bool // the holders have been notified; no holder is added
}

type leaseHolder struct {
	of       *lease   // nil: the lease is over
	mark     *dirMark // nil: the scope is vfs.LeaseData
	notified bool     // broken has been called
	broken   func()
}

// notifyOnce notifies the holder once. leases.mu is held.
func (h *leaseHolder) notifyOnce() {
	if !h.notified {
		h.notified = true
		go h.broken()
	}
}

// removeHolder removes a holder. It returns the lease if that was the last holder, or nil.
func (l *leases) removeHolder(who *leaseHolder) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := who.of
	if le == nil {
		return nil
	}
	who.of = nil
	l.stopObserving(who)
	le.holders = slices.DeleteFunc(le.holders, func(h *leaseHolder) bool { return h == who })
	if len(le.holders) > 0 {
		return nil
	}
	l.releaseLease(le)
	return le
}

// hasHolder reports whether o has a lease with a holder; the kernel may have dropped the lease
// already.
func (l *leases) hasHolder(o *object) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byFD[o.fd] != nil
}

// releaseLease releases the kernel's lease. l.mu is held.
func (l *leases) releaseLease(le *lease) {
	delete(l.byFD, le.o.fd)
	leasedFDs.Add(-1)
	_ = setLease(le.o.fd, unix.F_UNLCK) // fails if the kernel has already taken back a broken lease
}

// notifyFD notifies the holders of the lease on fd, if it is broken. The signal may
// belong to an earlier lease on a descriptor with the same number.
func (l *leases) notifyFD(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.byFD[fd]
	if le == nil || le.broken || leaseOf(fd) == le.kind {
		return
	}
	le.notifyHolders()
}

// notifyHolders notifies the holders that the lease is broken. leases.mu is held.
func (le *lease) notifyHolders() {
	le.broken = true
	for _, h := range le.holders {
		h.notifyOnce()
	}
}

// notifyAll calls notifyFD for all leases, after signals were lost.
func (l *leases) tellAll() {
	l.mu.Lock()
	fds := make([]int, 0, len(l.byFD))
	for fd := range l.byFD {
		fds = append(fds, fd)
	}
	l.mu.Unlock()
	for _, fd := range fds {
		l.notifyFD(fd)
	}
}

// checkLeased runs at each tick and checks some leased files. Removing a file breaks no lease, and
// its data stays on the disk while the file is open here; so checkLeased notifies the holders.
func (l *leases) checkLeased() {
	l.mu.Lock()
	if len(l.unchecked) == 0 {
		for fd := range l.byFD {
			l.unchecked = append(l.unchecked, fd)
		}
	}
	rest := max(len(l.unchecked)-maxLeaseSweep, 0)
	fds := l.unchecked[rest:]
	l.unchecked = slices.Clip(l.unchecked[:rest])
	l.mu.Unlock()
	for _, fd := range fds {
		if hasNoName(fd) {
			l.notifyIfRemoved(fd)
		}
	}
}

// notifyIfRemoved notifies the holders of the lease on fd if the file has no name any
// more. It checks again under the lock, because fd may have become another
// file.
func (l *leases) notifyIfRemoved(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if le := l.byFD[fd]; le != nil && !le.broken && hasNoName(fd) {
		le.notifyHolders()
	}
}

func hasNoName(fd int) bool {
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

// LeaseBreakTime returns the time for which the host blocks a process that breaks a lease, before
// the kernel takes the lease from its holder (/proc/sys/fs/lease-break-time). 0 means forever.
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
