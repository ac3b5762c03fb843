//go:build linux

package posix

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// leaseToWrite takes a lease of F_WRLCK of o, which c may write. The kernel gives
// one only if nobody else has the file open: not even the FS itself by another
// description. So all descriptors of o become duplicates of one description, and
// all later opens duplicate it, until the lease ends. A file that the FS has
// locked, or has lent to readers, gets no lease.
func (f *FS) leaseToWrite(who *leaseHolder, o *object, c *vfs.Cred, owner uint32) (err error) {
	o.wcc.Lock() // otherwise a write may be about to make a file dirty
	defer o.wcc.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	// Only the description of a write is sure to learn that the data was lost.
	if f.leases.has(o) || slices.ContainsFunc(o.files, f.unsettled) || !f.cache.unmapIdle(o) {
		return unix.EAGAIN
	}
	fd, err := f.reopen(o.fd, unix.O_RDWR)
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
			f.unshare(o)
		}
	}()
	for _, fl := range o.files {
		if err := dupOver(fd, fl.fd); err != nil {
			return err
		}
	}
	l := &f.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := f.observe(who, o, c, writerEvents); err != nil {
		return err
	}
	le, err := f.takeLease(o, fd, unix.F_WRLCK, owner)
	if err != nil {
		l.unobserve(who)
		return err
	}
	who.of, le.holders = le, []*leaseHolder{who}
	return nil
}

// releaseWriter gives a lease of F_WRLCK back.
func (f *FS) releaseWriter(who *leaseHolder, o *object) {
	f.leases.ending.RLock()
	defer f.leases.ending.RUnlock()
	o.mu.Lock()
	le := f.leases.leave(who)
	if le != nil {
		f.unshare(o)
	}
	o.mu.Unlock()
	if le != nil {
		f.cache.unpin(o)
	}
}

// unshare ends the sharing of one description, which has no lease any more: it is
// open for writing, and would keep other leases away, and the host from executing
// the file. The files for writing in use keep the description, which learns of
// lost data. o.mu is held.
func (f *FS) unshare(o *object) {
	o.shared.Store(false)
	for _, fl := range o.take(f.disk.settled) {
		f.cache.closeFile(fl)
	}
	f.replace(unix.O_PATH, o.fd, o.fd)
	for _, fl := range o.files {
		if fl.acc == accRead {
			f.replace(unix.O_RDONLY, o.fd, fl.fd)
		}
	}
}

// replace makes the descriptor place another description of the object of fd. If
// that fails, place stays as it is, until its object is idle.
func (f *FS) replace(flags, fd, place int) {
	if other, err := f.reopen(fd, flags); err == nil {
		_ = dupOver(other, place)
		closeFD(other)
	}
}

// unsettled reports whether closing fl would wait for a disk.
func (f *FS) unsettled(fl *file) bool { return !f.disk.settled(fl) }

// unmapIdle removes the mappings of o, which keep its description open. It returns
// false if one is lent. o.mu is held.
func (c *cache) unmapIdle(o *object) bool {
	if slices.ContainsFunc(o.windows, func(w *window) bool { return w.uses.Load() > 0 }) {
		return false
	}
	c.unmap(o)
	return true
}

// dupOver makes the descriptor place a duplicate of fd.
func dupOver(fd, place int) error {
	_, err := retry(func() (int, error) { return 0, unix.Dup3(fd, place, unix.O_CLOEXEC) })
	return err
}
