//go:build linux

package posix

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A dirWitness notices directory changes that are not this FS's own. The kernel reports each change
// (inotify(7)) before its system call returns. A report that the change in progress does not expect
// moves the directory's change attribute, which all FS in the process share, when the attribute is
// next read:
//
//	change:  expectReports ─▶ attributes ─▶ system calls ─▶ attributes, reports ─▶ only those expected?
//	look:    attributes ─▶ reports ─▶ change attribute, with a count of the other changes
//
// So a client that saw an atomic change may keep what it knows about the directory: another change
// shows at the next read, also one within the same ctime tick, or one that had moved ctime but was
// not reported yet. A removed watch counts as a change.
type dirWitness struct {
	supported   bool        // the kernel reports every change; does not change
	unavailable atomic.Bool // the kernel has no inotify instance for it

	live  atomic.Int32 // len(dirs)
	byIno sync.Map     // the same directories by inode number

	mu      sync.Mutex
	fd      int // inotify's, or 0: not open
	dirs    map[int32]*watchedDir
	buf     []byte // for reports
	refused uint32 // the tick in which the kernel rejected another watch

	read func(fd int, b []byte) (int, error) // unix.Read, replaced in tests
}

// witnesses is the number of inotify instances, in all FS in the process.
var witnesses atomic.Int32

// A watchedDir is a directory that a witness watches.
type watchedDir struct {
	f   *FS
	wd  int32
	fd  int // the object's
	ino uint64

	// The witness's lock guards the rest.
	expected   []nameReport // expected from the change in progress, and not read yet
	matched    int          // reports that were expected, and were read
	cookie     uint32       // the last one's
	unexpected bool         // another was read since the change began
	fresh      bool         // the FS has made no change since the watch began
	unwatched  bool         // the kernel has removed the watch
}

// A nameReport is the kernel's report about a name change.
type nameReport struct {
	event uint32
	name  string
}

const (
	nameEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO

	// witnessEvents are the changes to names in a directory, and to itself. Attribute changes
	// in entries are reported too, with a name.
	witnessEvents = nameEvents | unix.IN_ATTRIB | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_MASK_CREATE
)

// checkReports moves the change attribute of a directory with unexpected reports.
func (w *dirWitness) checkReports(ino uint64) {
	if w.live.Load() == 0 {
		return
	}
	if d, ok := w.byIno.Load(ino); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		d.(*watchedDir).f.readReports()
	}
}

// watchDir begins to watch a directory. It returns nil if that is impossible.
func (f *FS) watchDir(o *object) *watchedDir {
	w := &f.witness
	if !w.supported || w.unavailable.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.dirs) >= maxWatched || w.refused == f.cache.tick.Load()+1 || !w.openInotify() {
		return nil
	}
	wd, err := unix.InotifyAddWatch(w.fd, magicPath(o.fd), witnessEvents)
	if err == unix.ENOSPC || err == unix.ENOMEM {
		w.refused = f.cache.tick.Load() + 1
	}
	if err != nil { // EEXIST: another handle's
		return nil
	}
	d := &watchedDir{f: f, wd: int32(wd), fd: o.fd, ino: o.ino, fresh: true}
	w.dirs[d.wd] = d
	w.byIno.Store(d.ino, d)
	w.live.Add(1)
	return d
}

// openInotify opens the inotify instance. w.mu is held.
func (w *dirWitness) openInotify() bool {
	if w.fd > 0 {
		return true
	}
	if witnesses.Add(1) > maxWitnesses {
		witnesses.Add(-1)
		return false
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		witnesses.Add(-1)
		w.unavailable.Store(true)
		return false
	}
	w.fd, w.dirs, w.buf = fd, make(map[int32]*watchedDir), make([]byte, reportsLen)
	return true
}

// closeInotify closes the inotify instance, after all watches.
func (w *dirWitness) closeInotify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd > 0 {
		closeFD(w.fd)
		w.fd = 0
		witnesses.Add(-1)
	}
}

// stopWatching removes the watch, if any.
func (d *watchedDir) stopWatching() {
	if d == nil {
		return
	}
	w := &d.f.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd > 0 && !d.unwatched {
		_, _ = unix.InotifyRmWatch(w.fd, uint32(d.wd)) // fails if the kernel has just removed it
		d.f.readReports()
	}
	d.dropLocked()
}

// dropLocked forgets a directory whose watch was removed. The change attribute moves first: changes
// that the kernel has not reported would otherwise be missed.
func (d *watchedDir) dropLocked() {
	if d.unwatched {
		return
	}
	if !d.fresh {
		d.bumpChange()
	}
	w := &d.f.witness
	d.unwatched, d.unexpected = true, true
	delete(w.dirs, d.wd)
	w.byIno.Delete(d.ino)
	w.live.Add(-1)
}

// isUnwatched reports whether the kernel has removed the watch.
func (d *watchedDir) isUnwatched() bool {
	d.f.witness.mu.Lock()
	defer d.f.witness.mu.Unlock()
	return d.unwatched
}

// bumpChange moves the change attribute past all values seen so far.
func (d *watchedDir) bumpChange() {
	var st unix.Statx_t
	if statFD(d.fd, &st) == nil {
		ctime := d.f.ctimeNanos(&st)
		counted().noteChange(inodeOf(&st), ctime, ctime, true)
	}
}
