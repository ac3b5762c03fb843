//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A lockDescription is the open file description that has locks: that of an open File if possible,
// so that the locks need no descriptor.
type lockDescription struct {
	fd       int   // -1: not open
	writable bool  // fd is open for writing too
	lent     *file // whose descriptor fd is, or nil: see lendFile
}

// openDescription opens another description of the file.
func (l *fileLocks) openDescription(acc access) (d lockDescription, err error) {
	if fl := l.o.lendFile(acc); fl != nil {
		return lockDescription{fl.FD, acc == accWrite, fl}, nil
	}
	if err = l.countOwn(); err == nil {
		d.fd, d.writable, err = l.openOwn(acc)
	}
	if err != nil {
		l.uncountUnused()
	}
	return d, err
}

// openOwn opens a descriptor of the fileLocks' own. The holder of a write lease locks through the
// leased description, because another one would break the lease. After the first descriptor, only
// the current one leads to the file, which may have lost its name, and whose FS may be closed.
func (l *fileLocks) openOwn(acc access) (fd int, writable bool, err error) {
	flags := unix.O_RDONLY
	if acc == accWrite {
		flags = unix.O_RDWR
	}
	if l.fd >= 0 {
		fd, err = retryEINTR(func() (int, error) {
			return unix.Open(magicPath(l.fd), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		})
		return fd, acc == accWrite, err
	}
	l.o.mu.Lock()
	defer l.o.mu.Unlock()
	if l.o.shared.Load() {
		fd, err = dupFD(l.o.fd)
		return fd, true, err
	}
	fd, err = l.f.reopenFD(l.o.fd, flags)
	return fd, acc == accWrite, err
}

// countOwn counts a descriptor of the fileLocks' own. It returns EMFILE if there are too many.
func (l *fileLocks) countOwn() error {
	if l.counts {
		return nil
	}
	c := &l.f.cache
	var ok bool
	l.share, ok = takeShare(l.client, c.shares.locks)
	if ok && !c.reserveFDs(&c.locked, 1, c.max/4) {
		l.share.releasePlace()
		ok = false
	}
	if !ok {
		l.f.log.Warn("too many locked files, clients must wait: raise the limit on open files (RLIMIT_NOFILE), which bounds them", "client", l.client)
		return unix.EMFILE
	}
	l.counts = true
	c.fds.Add(1)
	c.closeExcess(false)
	return nil
}

// uncountUnused undoes countOwn if the fileLocks have no own descriptor any more.
func (l *fileLocks) uncountUnused() {
	if l.counts && (l.fd < 0 || l.lent != nil) {
		l.f.cache.fds.Add(-1)
		l.f.cache.releaseFDs(&l.f.cache.locked, 1)
		l.share.releasePlace()
		l.counts = false
	}
}

// lendFile returns a file that a File has open, for fileLocks to have locks of its description, or
// nil. returnFile must follow. A file without a File is not lent: it would keep the whole object
// open for locks of an NFSv3 client, which need one descriptor. Nor is a file whose description
// others of the object have too: unlocking one would unlock all.
func (o *object) lendFile(acc access) *file {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, fl := range o.files {
		if fl.acc == acc && fl.opens > 0 && !fl.lent && !fl.isDup && (acc == accRead || isReadWrite(fl.FD)) {
			fl.lent = true
			return fl
		}
	}
	return nil
}

// returnFile ends lendFile, and releases the last File if that was closed in the meantime.
func (o *object) returnFile(fl *file) {
	o.mu.Lock()
	w := fl.closed
	fl.lent, fl.closed = false, nil
	o.mu.Unlock()
	if w != nil {
		w.release()
	}
}

// isReadWrite reports whether a descriptor is open for reading and writing.
func isReadWrite(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}

// changeDescription changes to a description for reading, or for writing too. The new one takes the
// locks, all shared, before the old one is unlocked.
func (l *fileLocks) changeDescription(acc access) error {
	d, err := l.openDescription(acc)
	if err != nil {
		return l.f.lockError(err, l.held.Locked())
	}
	for r := range l.part.Ranges {
		if err = l.f.setLock(d.fd, r, locks.Shared); err != nil {
			break
		}
	}
	if err == nil {
		l.lockDescription, d = d, l.lockDescription
	}
	l.closeDescription(d)
	l.uncountUnused()
	return l.f.lockError(err, true)
}

// closeDescription unlocks all bytes, and closes or returns the description. A process that is
// about to be started may have the description for another moment.
func (l *fileLocks) closeDescription(d lockDescription) {
	_ = l.f.setLock(d.fd, everything, locks.None)
	if d.lent != nil {
		l.o.returnFile(d.lent)
	} else {
		closeFD(d.fd)
	}
}
