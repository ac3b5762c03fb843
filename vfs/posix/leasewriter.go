//go:build linux

package posix

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// leaseToWrite takes an F_WRLCK lease on o, which c may write. The kernel grants one only if the
// file is not open elsewhere: not even in the FS itself through another description. So all o's
// descriptors become duplicates of one, and all later opens duplicate it, until the lease is
// released. A file that the FS has locked, or has lent to readers, gets no lease.
func (f *FS) leaseToWrite(who *leaseHolder, o *object, c *vfs.Cred, owner uint32) (err error) {
	o.wcc.Lock() // otherwise a write may be about to make a file dirty
	defer o.wcc.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	// Only the description that wrote is sure to report lost data.
	if f.leases.hasHolder(o) || slices.ContainsFunc(o.files, f.staysOpen) || !f.cache.unmapIdle(o) {
		return unix.EAGAIN
	}
	fd, err := f.reopenFD(o.fd, unix.O_RDWR)
	switch err {
	case nil:
	case unix.EACCES, unix.EPERM, unix.EROFS:
		return unix.EOPNOTSUPP
	default:
		return err
	}
	defer closeFD(fd)
	o.shared.Store(true)
	defer func() {
		if err != nil {
			f.unshareFD(o)
		}
	}()
	for _, fl := range o.files {
		fl.isDup = true
		if err := dupOver(fd, fl.FD); err != nil {
			return err
		}
	}
	l := &f.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := f.observeEvents(who, o, c, writerEvents); err != nil {
		return err
	}
	le, err := f.takeLease(o, fd, unix.F_WRLCK, owner)
	if err != nil {
		l.stopObserving(who)
		return err
	}
	who.of, le.holders = le, []*leaseHolder{who}
	return nil
}

// releaseWriter releases an F_WRLCK lease.
func (f *FS) releaseWriter(who *leaseHolder, o *object) {
	f.leases.leaving.RLock()
	defer f.leases.leaving.RUnlock()
	o.mu.Lock()
	le := f.leases.removeHolder(who)
	if le != nil {
		f.unshareFD(o)
	}
	o.mu.Unlock()
	if le != nil {
		f.cache.unpinObject(o)
	}
}

// unshareFD stops sharing one description, which has no lease any more: it is open for writing, and
// would prevent other leases, and executing the file on the host. The files for writing in use keep
// the description, which reports lost data. o.mu is held.
func (f *FS) unshareFD(o *object) {
	o.shared.Store(false)
	for _, fl := range o.takeFiles(f.cache.isSettled) {
		f.cache.closeFile(fl)
	}
	f.replaceFD(unix.O_PATH, o.fd, o.fd)
	for _, fl := range o.files {
		if fl.acc == accRead {
			f.replaceFD(unix.O_RDONLY, o.fd, fl.FD)
		}
	}
}

// replaceFD replaces the descriptor place by a new description for fd's object. If that fails,
// place stays as it is, until its object is idle.
func (f *FS) replaceFD(flags, fd, place int) {
	if other, err := f.reopenFD(fd, flags); err == nil {
		_ = dupOver(other, place)
		closeFD(other)
	}
}

// staysOpen reports whether fl must keep its description: closing it would wait for a disk, or end
// locks.
func (f *FS) staysOpen(fl *file) bool { return fl.lent || !f.cache.isSettled(fl) }

// unmapIdle removes o's mappings, which keep its description open. It returns false if one is lent.
// o.mu is held.
func (c *cache) unmapIdle(o *object) bool {
	if slices.ContainsFunc(o.windows, func(w *window) bool { return w.uses.Load() > 0 }) {
		return false
	}
	c.unmapWindows(o)
	return true
}

// dupOver makes the descriptor place a duplicate of fd.
func dupOver(fd, place int) error {
	_, err := retryEINTR(func() (int, error) { return 0, unix.Dup3(fd, place, unix.O_CLOEXEC) })
	return err
}
