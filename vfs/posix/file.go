//go:build linux

package posix

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/filesync"
)

type access uint8

const (
	accRead access = iota
	accWrite
)

// accessMode returns the access as faccessat2(2) has it.
func (a access) accessMode() uint32 {
	if a == accWrite {
		return unix.W_OK
	}
	return unix.R_OK
}

// A file is an object opened by a caller, or a directory opened for reading.
type file struct {
	filesync.File
	acc     access
	credKey credKey

	seen atomic.Pointer[perms]

	dir  sync.Mutex   // guards the following and the descriptor's position
	pos  int64        // directory: the descriptor's position
	rest *dirLeftover // directory: entries that did not fit into the last listing, or nil

	// object.mu guards the rest.
	refs   int
	used   uint32    // tick at the last release
	opens  int       // openFiles
	lent   bool      // the descriptor has fileLocks' locks
	closed *openFile // the last openFile, closed while the file was lent: see returnFile
	isDup  bool      // the description is, or was, one of several files: see leaseToWrite

	holders int // openFiles that need the descriptor, also closed; cache.mu guards it
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

// areValid reports whether permission still holds for a file with attributes st. A changed mode or
// owner revokes it. ctime changes with an ACL, but also with each write; a write changes mtime too,
// and permission then holds for recheckTime.
func (p *perms) areValid(st *unix.Statx_t) bool {
	return p.mode == st.Mode && p.uid == st.Uid && p.gid == st.Gid &&
		(p.ctime == st.Ctime || p.mtime != st.Mtime && time.Since(p.at) < recheckTime)
}

// openAs returns o as opened by c, from the cache or newly opened, with one reference.
func (f *FS) openAs(o *object, c *vfs.Cred, acc access) (*file, error) {
	w := f.credKeyOf(c)
	fl, evicted, err := f.openLocked(o, c, &w, acc)
	if err != nil {
		return nil, err
	}
	f.closeEvicted(evicted, acc)
	return fl, nil
}

// closeEvicted closes evicted files. It is called without o.mu: closing may wait for a disk.
func (f *FS) closeEvicted(evicted []*file, acc access) {
	for _, old := range evicted {
		f.cache.closeFile(old)
	}
	f.cache.closeExcess(acc == accWrite)
}

// openLocked also returns evicted files; the caller must close them.
func (f *FS) openLocked(o *object, c *vfs.Cred, w *credKey, acc access) (fl *file, evicted []*file, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if fl := o.findFile(w, acc); fl != nil {
		fl.refs++
		return fl, nil, nil
	}
	var st unix.Statx_t // before the check, to miss no later change
	if err := f.statOrStale(o, &st); err != nil {
		return nil, nil, err
	}
	fd, err := f.openFresh(o, c, acc, st.Uid)
	if err != nil {
		return nil, nil, err
	}
	fl, evicted = f.addFile(o, w, acc, fd, permsOf(&st))
	return fl, evicted, nil
}

// addFile adds the descriptor fd to o's files. It also returns evicted files; the caller must close
// them. o.mu is held.
func (f *FS) addFile(o *object, w *credKey, acc access, fd int, seen *perms) (fl *file, evicted []*file) {
	w.groups = slices.Clone(w.groups)
	fl = &file{File: filesync.File{FD: fd, Ino: o.ino, Failed: &o.failed}, acc: acc, credKey: *w, refs: 1, isDup: o.shared.Load()}
	fl.seen.Store(seen)
	f.cache.fds.Add(1)
	evicted = f.limitFiles(o, acc)
	o.files = append(o.files, fl)
	return fl, evicted
}

// limitFiles evicts files so that o may have one more. It returns those that the caller must close:
// the least recently used one that waits for no disk. If many are dirty, a caller that writes
// closes all idle ones, so that each sync covers many callers' writes. o.mu is held.
func (f *FS) limitFiles(o *object, acc access) []*file {
	if len(o.files) < maxObjectFiles {
		return nil
	}
	var oldest *file
	for _, fl := range o.files {
		if fl.refs == 0 && (oldest == nil || fl.used < oldest.used) && f.cache.isSettled(fl) {
			oldest = fl
		}
	}
	if oldest == nil && acc == accWrite && int64(len(o.files)) >= min(maxDirtyFiles, max(f.cache.maxDescriptors()/4, maxObjectFiles)) {
		return o.takeFiles(func(*file) bool { return true })
	}
	return o.takeFiles(func(fl *file) bool { return fl == oldest })
}

func (f *FS) closeFile(o *object, fl *file) {
	o.mu.Lock()
	fl.refs--
	fl.used = f.cache.tick.Load()
	o.mu.Unlock()
}

// recheckAccess checks with the kernel again that c may open o, if st shows that this may have
// changed since fl was opened.
func (f *FS) recheckAccess(o *object, fl *file, c *vfs.Cred, st *unix.Statx_t) error {
	if fl.seen.Load().areValid(st) {
		return nil
	}
	fd, err := f.openFresh(o, c, fl.acc, st.Uid)
	if err != nil {
		return err
	}
	closeFD(fd)
	fl.seen.Store(permsOf(st))
	return nil
}

// openFresh opens a new descriptor for o as c, with NFS's two departures from the kernel's
// permissions. O_NONBLOCK makes a lease that must be broken return EAGAIN.
func (f *FS) openFresh(o *object, c *vfs.Cred, acc access, owner uint32) (int, error) {
	flags := unix.O_RDONLY
	switch {
	case o.typ == vfs.TypeDir:
		flags = unix.O_DIRECTORY
	case acc == accWrite:
		flags = f.writeFlags()
	}
	shared := o.shared.Load()
	fd := -1
	err := f.runAs(c, func() (err error) {
		if shared {
			return checkAccess(o.fd, acc.accessMode())
		}
		if fd, err = f.reopenFD(o.fd, flags); err == unix.EACCES && flags == unix.O_RDWR {
			fd, err = f.reopenFD(o.fd, unix.O_WRONLY)
		}
		return err
	})
	if err == unix.EACCES && f.switches && o.typ == vfs.TypeReg &&
		(c.UID == owner || acc == accRead && f.checkPermission(o, c, unix.X_OK) == nil) {
		if !shared {
			return f.reopenFD(o.fd, flags)
		}
		err = nil
	}
	if shared && err == nil {
		return dupFD(o.fd) // another description would break the lease
	}
	return fd, err
}

// writeFlags returns how to open a file for writing: if possible also for reading, which a
// description must be that has shared locks. Other hosts, and FUSE, see how a file is opened.
func (f *FS) writeFlags() int {
	if f.traits.local {
		return unix.O_RDWR
	}
	return unix.O_WRONLY
}

func dupFD(fd int) (int, error) {
	return retryEINTR(func() (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) })
}

// reopenFD opens a descriptor's object again.
func (f *FS) reopenFD(fd, flags int) (int, error) {
	return retryEINTR(func() (int, error) {
		return unix.Openat(f.proc, magicName(fd), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
}
