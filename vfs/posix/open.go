//go:build linux

package posix

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Open serves dir, which may be a symbolic link to a directory.
func Open(dir string, o Options) (*FS, error) {
	o.setDefaults()
	f := &FS{
		proc: -1, tree: -1, mount: -1,
		newVerf: o.Verifier, log: o.Log, maxSize: maxSize(), openNamed: openPath, fcntlLock: fcntlLock,
		fallocate: hostFallocate, copyRange: unix.CopyFileRange, cloneRange: unix.IoctlFileCloneRange,
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	f.verifier.Store(o.Verifier())
	f.disk.Init(f.reportLoss)
	f.cache.initCache(&o, &f.disk)
	f.leases.max, f.leases.addWatch = maxFiles()/2, unix.InotifyAddWatch
	if err := f.prepareOpen(dir, &o); err != nil {
		return nil, errors.Join(fmt.Errorf("serving %s: %w", dir, err), f.closeAll())
	}
	f.SetExclusive(o.Exclusive)
	go f.runTicks(max(o.IdleTime/(idleTicks-1), time.Millisecond))
	return f, nil
}

// prepareOpen does Open's work, in dependency order.
func (f *FS) prepareOpen(dir string, o *Options) (err error) {
	if f.process, err = thisProcess(); err != nil {
		return err
	}
	f.proc, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/proc must be mounted: %w", err)
	}
	if err := f.openMount(dir, o); err != nil {
		return err
	}
	f.dir = hostDir(dir)
	f.fsid = o.FSID
	if f.fsid == 0 && o.FSIDSeed != "" {
		f.fsid = f.digestFSID(o.FSIDSeed)
	}
	if f.fsid == 0 {
		f.fsid = unix.Mkdev(f.rootStat.Dev_major, f.rootStat.Dev_minor)
	}
	fd, err := openPath(f.mount, ".")
	if err != nil {
		return err
	}
	h, err := f.chooseHandles(fd, o)
	if err != nil {
		closeFD(fd)
		return err
	}
	f.root = f.adoptFD(h, fd, &f.rootStat)
	// A container's seccomp filter returns EPERM for calls that it does not
	// know.
	if err := checkAccess(f.root.fd, unix.X_OK); err == unix.ENOSYS || err == unix.EPERM {
		return fmt.Errorf("the kernel has no faccessat2; use Linux 5.8 or newer, and a seccomp filter that allows it: %w", err)
	}
	return nil
}

// digestFSID returns Options.FSIDSeed's value for Attr.FSID.
func (f *FS) digestFSID(seed string) uint64 {
	h := fnv.New64a()
	h.Write(append([]byte(seed+"\x00"), f.RootID()...)) // never fails
	return h.Sum64()
}

// openMount opens dir, if possible in a copy of its mount without other mounts on it.
func (f *FS) openMount(dir string, o *Options) (err error) {
	if f.tree, err = cloneMount(dir); err == nil {
		f.mount, err = openDir(f.tree, ".")
	} else {
		f.log.Debug("cannot clone the mount; looking up other mounts inside the export will fail", "err", err)
		f.mount, err = openDir(unix.AT_FDCWD, dir)
	}
	if err != nil {
		return err
	}
	f.disk.Mount = f.mount
	var fs unix.Statfs_t
	if err := unix.Fstatfs(f.mount, &fs); err != nil {
		return err
	}
	fsType := uint32(fs.Type) // Type has another Go type on some machines
	if o.fsType != 0 {
		fsType = o.fsType
	}
	f.traits = traitsOf(fsType)
	f.leases.allowed = f.traits.local
	f.coarseCtime.Store(!f.traits.fineCtime || !hasFineTimes())
	f.xattrs, f.acls = hasXattrs(f.mount), hasACLs(f.mount)
	f.witness.supported, f.witness.read = f.traits.reportsChanges, unix.Read
	f.hasInodes = f.traits.dirInodes && f.tree >= 0 // otherwise mounts may cover entries
	if canClone(f.mount) {
		f.cloneAlign = uint32(fs.Bsize)
	}
	err = statFD(f.mount, &f.rootStat)
	f.dev = inodeOf(&f.rootStat).dev
	return err
}

func cloneMount(dir string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, err
	}
	// Otherwise mounts made later would propagate to the copy.
	private := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &private); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

func openDir(at int, name string) (int, error) {
	return retryEINTR(func() (int, error) {
		return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
}

// chooseHandles determines the available handle kind, and returns the root's handle.
func (f *FS) chooseHandles(root int, o *Options) (h vfs.Handle, err error) {
	if !o.TableHandles && f.traits.handles {
		k := &kernelHandles{mount: f.mount, known: knownHandles{isOpen: f.cache.hasObject, young: o.shareYoung}}
		if h, err = f.tryKernel(k, root); err == nil {
			f.handles = k
			return h, nil
		}
		f.log.Info("the kernel cannot open files by handle here; a handle table replaces it", "err", err)
	}
	t, err := newTableHandles(f, o)
	if err != nil {
		return h, err
	}
	f.handles = t
	return t.rootHandle(), nil
}

// tryKernel checks that the kernel opens the root by the root's handle.
func (f *FS) tryKernel(k *kernelHandles, root int) (vfs.Handle, error) {
	h, err := k.encodeHandle(root)
	if err != nil {
		return h, err
	}
	fd, err := k.openHandle(h)
	if err != nil {
		return h, err
	}
	defer closeFD(fd)
	var st unix.Statx_t
	if err := statFD(fd, &st); err != nil {
		return h, err
	}
	if !f.isRoot(&st) {
		return h, errors.New("the directory's handle opens another object")
	}
	return h, nil
}

// maxSize is the greatest size that a file may get. A process that writes past
// RLIMIT_FSIZE is killed, so the FS must not try.
func maxSize() uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &r) != nil {
		return maxFileSize
	}
	return min(r.Cur, maxFileSize)
}

// syncHandles puts the table's changes since the last tick on stable storage.
func (f *FS) syncHandles() {
	t, ok := f.handles.(*tableHandles)
	if !ok {
		return
	}
	err := errors.Join(t.persistAll(), t.table.Sync())
	if err != nil && !f.tableFailed {
		f.log.Error("the handle table cannot be written: clients cannot open new files, and their handles may be stale after a restart; if the state directory's disk is full, free some space", "err", err)
	}
	f.tableFailed = err != nil
}

// runTicks runs the ticks, which close idle objects, until Close.
func (f *FS) runTicks(every time.Duration) {
	defer close(f.stopped)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			f.cache.closeIdle()
			f.leases.checkLeased()
			f.syncHandles()
		case <-f.stop:
			return
		}
	}
}
