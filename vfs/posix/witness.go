//go:build linux

package posix

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A witness knows of the changes of directories that are not this FS's own. The kernel
// reports each change (inotify(7)) before the call that makes it returns. A report that
// the change under way does not expect moves the directory's change attribute, which it
// shares with all FS of the process, at the next look at the attribute:
//
//	change:  expect ─▶ attributes ─▶ the kernel's calls ─▶ attributes, reports ─▶ only those expected?
//	look:    attributes ─▶ reports ─▶ change attribute, with a count of the other changes
//
// So a client that was told of an atomic change may keep what it knows of the directory:
// another change shows at the next look, also one within the same tick of ctime, or one
// that had moved ctime but was not reported yet. The end of a watch counts as a change.
type witness struct {
	able   bool        // the kernel reports every change; does not change
	broken atomic.Bool // the kernel has no inotify instance for it

	live  atomic.Int32 // len(dirs)
	byIno sync.Map     // the same directories by inode number

	mu      sync.Mutex
	fd      int // inotify's, or 0: not open
	dirs    map[int32]*watchedDir
	buf     []byte // for reports
	refused uint32 // the tick in which the kernel had no room for another watch

	read func(fd int, b []byte) (int, error) // unix.Read, replaced in tests
}

// witnesses is how many have an inotify instance, in all FS of the process.
var witnesses atomic.Int32

// A watchedDir is a directory that a witness watches.
type watchedDir struct {
	f   *FS
	wd  int32
	fd  int // the object's
	ino uint64

	// The witness's lock guards the rest.
	due    []report // expected of the change under way, and not read yet
	met    int      // reports that were expected, and were read
	cookie uint32   // of the last of them
	odd    bool     // another was read since the change began
	fresh  bool     // the FS has made no change since the watch began
	gone   bool     // the kernel has ended the watch
}

// A report is what the kernel tells of a change of names.
type report struct {
	event uint32
	name  string
}

const (
	nameEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO

	// witnessEvents are the changes of names in a directory, and of itself. Changes of the
	// attributes of what is in it are reported too, with a name.
	witnessEvents = nameEvents | unix.IN_ATTRIB | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_MASK_CREATE
)

// look moves the change attribute of a directory of which other changes were reported.
func (w *witness) look(ino uint64) {
	if w.live.Load() == 0 {
		return
	}
	if d, ok := w.byIno.Load(ino); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		d.(*watchedDir).f.readReports()
	}
}

// watch begins to watch a directory. It returns nil if that is impossible.
func (f *FS) watch(o *object) *watchedDir {
	w := &f.witness
	if !w.able || w.broken.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.dirs) >= maxWatched || w.refused == f.cache.tick.Load()+1 || !w.open() {
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

// open opens the inotify instance. w.mu is held.
func (w *witness) open() bool {
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
		w.broken.Store(true)
		return false
	}
	w.fd, w.dirs, w.buf = fd, make(map[int32]*watchedDir), make([]byte, reportsLen)
	return true
}

// close closes the inotify instance, after all watches.
func (w *witness) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd > 0 {
		closeFD(w.fd)
		w.fd = 0
		witnesses.Add(-1)
	}
}

// end ends the watch, if any.
func (d *watchedDir) end() {
	if d == nil {
		return
	}
	w := &d.f.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd > 0 && !d.gone {
		_, _ = unix.InotifyRmWatch(w.fd, uint32(d.wd)) // fails if the kernel has just ended it
		d.f.readReports()
	}
	d.dropLocked()
}

// dropLocked ends what the witness knows of a directory whose watch has ended. The change
// attribute moves first: nobody will learn of changes that the kernel has not reported.
func (d *watchedDir) dropLocked() {
	if d.gone {
		return
	}
	if !d.fresh {
		d.count()
	}
	w := &d.f.witness
	d.gone, d.odd = true, true
	delete(w.dirs, d.wd)
	w.byIno.Delete(d.ino)
	w.live.Add(-1)
}

// hasGone reports whether the kernel has ended the watch.
func (d *watchedDir) hasGone() bool {
	d.f.witness.mu.Lock()
	defer d.f.witness.mu.Unlock()
	return d.gone
}

// count moves the change attribute, after all that has moved ctime so far.
func (d *watchedDir) count() {
	var st unix.Statx_t
	if statFD(d.fd, &st) == nil {
		ctime := d.f.ctime(&st)
		counted().note(inodeOf(&st), ctime, ctime, true)
	}
}
