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

// leased counts the leases of all FS of the process: what bounds them is
// RLIMIT_NOFILE.
var leased atomic.Int64

// leases are the files of an FS on which the kernel has given leases of F_RDLCK
// (fcntl(2)). A leased object is pinned: its descriptor is the place and the lease.
type leases struct {
	max    int64
	meant  bool      // a lease is broken by whoever changes the file
	denied sync.Once // to say so

	mu      sync.Mutex
	byFD    map[int]*lease
	due     []int    // of byFD, perhaps: what sweep has yet to look at
	watcher *watcher // from the first lease on
}

// A lease is the kernel's, of one object, for all who asked.
type lease struct {
	o       *object
	holders []*leaseHolder
	broken  bool // the holders have been told; nobody is added
}

type leaseHolder struct {
	of     *lease // nil: it is over
	broken func()
}

// leave returns the lease that has no holder any more without who, or nil.
func (l *leases) leave(who *leaseHolder) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := who.of
	if le == nil {
		return nil
	}
	who.of = nil
	le.holders = slices.DeleteFunc(le.holders, func(h *leaseHolder) bool { return h == who })
	if len(le.holders) > 0 {
		return nil
	}
	l.end(le)
	return le
}

// end gives the kernel's lease back. l.mu is held.
func (l *leases) end(le *lease) {
	delete(l.byFD, le.o.fd)
	leased.Add(-1)
	_ = setLease(le.o.fd, unix.F_UNLCK) // one that was broken too long ago has gone
}

// tell tells the holders of the lease on fd that it is broken, if it is: the
// signal may be of a lease that had the number before.
func (l *leases) tell(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.byFD[fd]
	if le == nil || le.broken || leaseOf(fd) == unix.F_RDLCK {
		return
	}
	le.tell()
}

// tell tells the holders that the lease is broken. The lock of the leases is held.
func (le *lease) tell() {
	le.broken = true
	for _, h := range le.holders {
		go h.broken()
	}
}

// tellAll is tell for all leases: there was no room for a signal for each.
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

// sweep is a tick: it looks at some leased files. Who removes one breaks no lease, and
// its octets stay on the disk for as long as it is open here: its holders are told.
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

// removed tells the holders of the lease on fd that the file has no name any more, if
// that is so: fd may be another file since it was looked at.
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

// leaseOf returns what lease fd has, or is to have when it is broken.
func leaseOf(fd int) int {
	kind, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0)
	if err != nil {
		return unix.F_UNLCK
	}
	return kind
}

// LeaseBreakTime returns for how long the host lets who breaks a lease wait, before
// it takes the lease from its holder (/proc/sys/fs/lease-break-time). 0: for ever.
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
