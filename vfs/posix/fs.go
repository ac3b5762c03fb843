//go:build linux

package posix

import (
	"encoding/binary"
	"log/slog"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/filesync"
)

// FS serves a host directory as a vfs.FS.
type FS struct {
	process
	handles     handles
	cache       cache
	disk        filesync.Disk
	leases      leases
	witness     dirWitness
	root        *object
	rootStat    unix.Statx_t
	dir         string      // its path on the host, without symbolic links
	tree        int         // keeps the mount alive, or -1
	mount       int         // the root, open for reading
	proc        int         // /proc/self/fd
	traits      fsTraits    // the file system's
	coarseCtime atomic.Bool // changes may leave ctime as it was
	hasInodes   bool        // directory entries have their objects' inode numbers

	exclusive atomic.Bool // see SetExclusive
	dev       uint64      // all objects'

	xattrs   bool // objects can have extended attributes
	acls     bool // objects can have access control lists
	fsid     uint64
	maxSize  uint64 // maximum file size, in bytes
	newVerf  func() uint64
	verifier atomic.Uint64
	log      *slog.Logger

	clockTick int64 // coarse-clock granularity in nanoseconds, for tests; 0: the kernel's

	openNamed func(dir int, name string) (int, error)       // openPath, replaced in tests
	fcntlLock func(fd, command int, lk *unix.Flock_t) error // fcntlLock, replaced in tests

	// The kernel's calls, replaced in tests.
	fallocate  func(fd int, mode uint32, off, n int64) error
	copyRange  func(in int, inOff *int64, out int, outOff *int64, n, flags int) (int, error)
	cloneRange func(fd int, r *unix.FileCloneRange) error

	cloneAlign uint32 // see CloneAlign

	tableFailed  bool      // the last tick could not write the table
	logLockError sync.Once // see lockError

	stop, stopped chan struct{} // runTicks'
	closing       sync.Once
}

var _ vfs.FS = (*FS)(nil)

// Root returns the directory's handle.
func (f *FS) Root() vfs.Handle { return f.root.h }

// RootID identifies the served directory among all directories that this host
// may serve under its path, now and later. RootID is nil if the file system
// cannot identify the directory: after another mount, or on another host,
// inodes may have other numbers.
func (f *FS) RootID() []byte {
	if !f.traits.hasStableInodes() {
		return nil
	}
	st := &f.rootStat
	b := binary.BigEndian.AppendUint64(nil, st.Ino)
	if st.Mask&unix.STATX_BTIME != 0 && st.Btime != (unix.StatxTimestamp{}) {
		b = binary.BigEndian.AppendUint64(b, uint64(st.Btime.Sec))
		return binary.BigEndian.AppendUint32(b, st.Btime.Nsec)
	}
	var k kernelHandle
	if k.encode(f.mount) != nil {
		return nil
	}
	return append(b, k.b[:k.n]...)
}

// WriteVerifier returns the write verifier. It changes with each Open, and with
// each failure to put data on stable storage.
func (f *FS) WriteVerifier() uint64 { return f.verifier.Load() }

// reportLoss records that accepted data may be lost. The new verifier makes clients
// that still have the data write it again.
func (f *FS) reportLoss(err error) {
	f.verifier.Store(f.newVerf())
	f.log.Error("data may be lost; the new write verifier makes clients write it again", "err", err)
}

// Close closes all descriptors. No other method may be running. A second Close
// does nothing.
func (f *FS) Close() (err error) {
	f.closing.Do(func() {
		f.SetExclusive(false)
		close(f.stop)
		<-f.stopped
		f.cache.closing.Wait()
		err = f.closeAll()
	})
	return err
}

// closeAll closes an FS, possibly one that is not fully open.
func (f *FS) closeAll() (err error) {
	f.closeLeases()
	if f.root != nil {
		f.putObject(f.root)
	}
	f.cache.closeAll()
	f.witness.closeInotify()
	if f.handles != nil {
		err = f.handles.close()
	}
	for _, fd := range []int{f.mount, f.tree, f.proc} {
		if fd >= 0 {
			closeFD(fd)
		}
	}
	return err
}

// getObject returns h's object with one reference, which putObject releases.
func (f *FS) getObject(h vfs.Handle) (*object, error) {
	if o := f.cache.getObject(h); o != nil {
		return o, nil
	}
	fd, err := f.handles.openHandle(h)
	if err != nil {
		return nil, err
	}
	return f.adoptExported(h, fd)
}

// getDirectory is like getObject, but h must be a directory.
func (f *FS) getDirectory(h vfs.Handle) (*object, error) {
	o, err := f.getObject(h)
	if err == nil && o.typ != vfs.TypeDir {
		f.putObject(o)
		return nil, unix.ENOTDIR
	}
	return o, err
}

func (f *FS) putObject(o *object) { f.cache.releaseObject(o) }

// adoptFD creates an object that owns fd.
func (f *FS) adoptFD(h vfs.Handle, fd int, st *unix.Statx_t) *object {
	o := &object{h: h, fd: fd, ino: st.Ino, typ: typeOf(st.Mode), birth: st.Btime, mask: st.Mask}
	if id, ok := linkOf(h); ok {
		o.ino = id.Home
	}
	if f.traits.copiesUp {
		o.copiedUp.Store(&copyUpIdentity{st.Ino, st.Btime})
	}
	return f.cache.addObject(o)
}

// adoptExported adopts the O_PATH descriptor fd that was opened by handle. It returns ESTALE if the
// object is not in this export, or has no name left.
func (f *FS) adoptExported(h vfs.Handle, fd int) (*object, error) {
	var st unix.Statx_t
	err := statFD(fd, &st)
	if err == nil && (!f.isExported(&st) || st.Nlink == 0) {
		err = unix.ESTALE
	}
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	return f.adoptFD(h, fd, &st), nil
}

// isExported reports whether an object lies in the export's mount.
func (f *FS) isExported(st *unix.Statx_t) bool {
	r := &f.rootStat
	return st.Dev_major == r.Dev_major && st.Dev_minor == r.Dev_minor && st.Mnt_id == r.Mnt_id
}

func (f *FS) isRoot(st *unix.Statx_t) bool {
	return st.Ino == f.rootStat.Ino && f.isExported(st)
}

// statOrStale reads an object's attributes. It returns ESTALE if the object is unlinked and not
// open.
func (f *FS) statOrStale(o *object, st *unix.Statx_t) error {
	if f.cachedStat(o.ino, st) {
		return nil
	}
	looked := attrs.currentTime()
	if err := f.statObject(o, st); err != nil {
		return err
	}
	f.noteCopyUp(o, st)
	st.Ino = o.ino
	f.cacheAttr(st, looked)
	if st.Nlink == 0 && o.opens.Load() == 0 {
		f.cache.forgetObject(o.h)
		return unix.ESTALE
	}
	return nil
}

// attrOf is like statOrStale, for a reply in which attributes are optional.
func (f *FS) attrOf(o *object) vfs.MaybeAttr {
	var st unix.Statx_t
	if f.statOrStale(o, &st) != nil {
		return vfs.MaybeAttr{}
	}
	return f.maybeAttrOf(&st)
}
