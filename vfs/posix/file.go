//go:build linux

package posix

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

type access uint8

const (
	accRead access = iota
	accWrite
)

// mode returns the access as faccessat2(2) has it.
func (a access) mode() uint32 {
	if a == accWrite {
		return unix.W_OK
	}
	return unix.R_OK
}

// A file is an object opened by a caller, or a directory opened for reading.
type file struct {
	fd      int
	ino     uint64
	acc     access
	credKey credKey

	seen   atomic.Pointer[perms]
	dirty  atomic.Bool    // written to since the last sync; disk changes it
	failed *atomic.Uint32 // the object's, because files may share a description

	dir  sync.Mutex // guards the following and the descriptor's position
	pos  int64      // directory: the descriptor's position
	rest *leftover  // directory: entries that the last listing had no room for, or nil

	refs int    // under object.mu
	used uint32 // tick of the last release, under object.mu
}

// perms are the attributes on which permission to open a file was based.
type perms struct {
	mode     uint16
	uid, gid uint32
	mtime    unix.StatxTimestamp
	ctime    unix.StatxTimestamp
	at       time.Time
}

func permsOf(st *unix.Statx_t) *perms {
	return &perms{mode: st.Mode, uid: st.Uid, gid: st.Gid, mtime: st.Mtime, ctime: st.Ctime, at: time.Now()}
}

// hold reports whether permission still holds for a file with attributes st. A
// changed mode or owner ends it. ctime changes with an access control list, but
// also with each write; a write changes mtime too, and permission then holds
// for recheckTime.
func (p *perms) hold(st *unix.Statx_t) bool {
	return p.mode == st.Mode && p.uid == st.Uid && p.gid == st.Gid &&
		(p.ctime == st.Ctime || p.mtime != st.Mtime && time.Since(p.at) < recheckTime)
}

// open returns o opened by c, from the cache or newly opened, with one
// reference.
func (f *FS) open(o *object, c *vfs.Cred, acc access) (*file, error) {
	w := f.whoIs(c)
	fl, over, err := f.openLocked(o, c, &w, acc)
	if err != nil {
		return nil, err
	}
	f.closeOver(over)
	return fl, nil
}

// closeOver closes files that had to make room. It is called without o.mu:
// closing may wait for a disk.
func (f *FS) closeOver(over []*file) {
	for _, old := range over {
		f.cache.closeFile(old)
	}
	f.cache.shrink()
}

// openLocked also returns files that had to make room; the caller must close
// them.
func (f *FS) openLocked(o *object, c *vfs.Cred, w *credKey, acc access) (fl *file, over []*file, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if fl := o.find(w, acc); fl != nil {
		fl.refs++
		return fl, nil, nil
	}
	var st unix.Statx_t // before the check, to miss no later change
	if err := f.stat(o, &st); err != nil {
		return nil, nil, err
	}
	fd, err := f.openAs(o, c, acc, st.Uid)
	if err != nil {
		return nil, nil, err
	}
	fl, over = f.addFile(o, w, acc, fd, permsOf(&st))
	return fl, over, nil
}

// addFile adds the descriptor fd to the files of o. It also returns files that
// had to make room; the caller must close them. o.mu is held.
func (f *FS) addFile(o *object, w *credKey, acc access, fd int, seen *perms) (fl *file, over []*file) {
	w.groups = slices.Clone(w.groups)
	fl = &file{fd: fd, ino: o.ino, acc: acc, credKey: *w, refs: 1, failed: &o.failed}
	fl.seen.Store(seen)
	f.cache.fds.Add(1)
	over = o.limitFiles()
	o.files = append(o.files, fl)
	return fl, over
}

// limitFiles makes room for one more file of o. It returns the files that the
// caller must close. o.mu is held.
func (o *object) limitFiles() []*file {
	if len(o.files) < maxObjectFiles {
		return nil
	}
	var oldest *file
	for _, fl := range o.files {
		if fl.refs == 0 && (oldest == nil || fl.used < oldest.used) {
			oldest = fl
		}
	}
	return o.take(func(fl *file) bool { return fl == oldest })
}

func (f *FS) closeFile(o *object, fl *file) {
	o.mu.Lock()
	fl.refs--
	fl.used = f.cache.tick.Load()
	o.mu.Unlock()
}

// recheck asks the kernel again whether c may open o, if st shows that the
// answer may have changed since fl was opened.
func (f *FS) recheck(o *object, fl *file, c *vfs.Cred, st *unix.Statx_t) error {
	if fl.seen.Load().hold(st) {
		return nil
	}
	fd, err := f.openAs(o, c, fl.acc, st.Uid)
	if err != nil {
		return err
	}
	closeFD(fd)
	fl.seen.Store(permsOf(st))
	return nil
}

// openAs opens o as c, with NFS's two departures from the kernel's permissions.
// O_NONBLOCK makes a lease that must be broken return EAGAIN.
func (f *FS) openAs(o *object, c *vfs.Cred, acc access, owner uint32) (int, error) {
	flags := unix.O_RDONLY
	if acc == accWrite {
		flags = unix.O_WRONLY
	}
	if o.typ == vfs.TypeDir {
		flags |= unix.O_DIRECTORY
	}
	shared := o.shared.Load()
	fd := -1
	err := f.as(c, func() (err error) {
		if shared {
			return accessible(o.fd, acc.mode())
		}
		fd, err = f.reopen(o.fd, flags)
		return err
	})
	if err == unix.EACCES && f.switches && o.typ == vfs.TypeReg &&
		(c.UID == owner || acc == accRead && f.permitted(o, c, unix.X_OK) == nil) {
		if !shared {
			return f.reopen(o.fd, flags)
		}
		err = nil
	}
	if shared && err == nil {
		return dup(o.fd) // another description would break the lease
	}
	return fd, err
}

func dup(fd int) (int, error) {
	return retry(func() (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) })
}

// reopen opens the object of a descriptor again.
func (f *FS) reopen(fd, flags int) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(f.proc, magic(fd), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
}
