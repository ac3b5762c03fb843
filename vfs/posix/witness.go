//go:build linux

package posix

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A witness knows whether anybody else has changed the names in a directory since this
// FS did. The kernel reports each change of names or attributes (inotify(7)) while the
// directory is locked, so a change has been reported when the lock has been free.
//
//	change ─▶ attributes ─▶ wait for the lock ─▶ read the reports: only those of the change?
type witness struct {
	able atomic.Bool // the kernel tells of every change

	mu   sync.Mutex
	fd   int // inotify's, or 0: not open yet
	dirs map[int32]*watchedDir
	buf  []byte // for reports
}

// witnesses is how many have an inotify instance, in all FS of the process.
var witnesses atomic.Int32

// A watchedDir is a directory that a witness observes.
type watchedDir struct {
	w        *witness
	wd       int32
	fd       int    // the directory, read to its end
	reported uint64 // changes, under w.mu
	known    uint64 // changes up to the last one of this FS, under the object's wcc
	fresh    bool   // this FS has made no change since the observation began; also under wcc
}

// witnessEvents are the changes of names in a directory, and of its attributes. Changes
// of the attributes of what is in it are reported too, with a name.
const witnessEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_ONLYDIR

// observeNames begins to observe d, whose names are about to change, if the caller wants
// to know whether the change is atomic. d.wcc is held.
func (f *FS) observeNames(ctx context.Context, d *object) {
	if d.watched != nil || !vfs.WantsAtomic(ctx) || !f.witness.hasRoom() {
		return
	}
	fd, err := f.reopen(d.fd, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOATIME)
	if err != nil {
		return
	}
	w := f.witness.observe(d.fd, fd)
	if w == nil {
		closeFD(fd)
		return
	}
	if readToEnd(fd) != nil {
		w.close()
		return
	}
	d.watched = w
	f.cache.fds.Add(1)
}

// readToEnd reads a directory to its end.
func readToEnd(fd int) error {
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err == nil {
		return nil
	}
	b := dirBufs.Get().(*dirBuf)
	defer dirBufs.Put(b)
	for {
		if n, err := getdents(fd, b.b[:]); n == 0 || err != nil {
			return err
		}
	}
}

// atomic reports whether a change of d under way, of which the kernel reports so many
// changes, is the only one since the last change of this FS. after are the attributes
// from after the change. d.wcc is held.
func (f *FS) atomic(ctx context.Context, d *object, after *vfs.MaybeAttr, reports uint64) bool {
	w := d.watched
	if w == nil || !vfs.WantsAtomic(ctx) {
		return false
	}
	var none [1]byte
	_, err := unix.Getdents(w.fd, none[:]) // waits for the lock
	reported, ok := w.w.count(w)
	ok = ok && (err == nil || err == unix.EINVAL) && !w.fresh && reported-w.known == reports // EINVAL: an entry, and no room
	w.known, w.fresh = reported, false
	// A change of names sets both times alike. Others that move ctime are not reported:
	// of mtime alone, and of the directory's own name.
	return ok && after.OK && after.Attr.Mtime == after.Attr.Ctime
}

// atomicTarget is atomic for the directory e to which o was renamed from d. The kernel
// reports two renames from elsewhere to one name as one, unless it reports something else
// in between: here, that o has left d. The wcc of both is held.
func (f *FS) atomicTarget(ctx context.Context, d, e *object, after *vfs.MaybeAttr, o *named, name string) bool {
	if !f.atomic(ctx, e, after, 1) || d.watched == nil {
		return false
	}
	var st unix.Statx_t
	return f.statName(e, name, &st) == nil && st.Ino == o.st.Ino // nobody has renamed another object to the name since
}

// hasRoom reports whether another directory can be observed.
func (w *witness) hasRoom() bool {
	if !w.able.Load() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dirs) < maxWatched && (w.fd > 0 || witnesses.Load() < maxWitnesses)
}

// observe begins to observe the directory open as place and as fd. It returns nil if that
// is impossible.
func (w *witness) observe(place, fd int) *watchedDir {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.dirs) >= maxWatched {
		return nil
	}
	if w.fd == 0 {
		if witnesses.Add(1) > maxWitnesses {
			witnesses.Add(-1)
			return nil
		}
		in, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			witnesses.Add(-1)
			w.able.Store(false)
			return nil
		}
		w.fd, w.dirs = in, make(map[int32]*watchedDir)
	}
	wd, err := unix.InotifyAddWatch(w.fd, magicPath(place), witnessEvents)
	if err != nil || w.dirs[int32(wd)] != nil {
		return nil
	}
	d := &watchedDir{w: w, wd: int32(wd), fd: fd, fresh: true}
	w.dirs[d.wd] = d
	return d
}

// count reads all reports, and returns how many there were of changes of d.
func (w *witness) count(d *watchedDir) (n uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok = w.read() == nil
	return d.reported, ok
}

// read reads all reports. w.mu is held.
func (w *witness) read() error {
	if w.buf == nil {
		w.buf = make([]byte, 4096)
	}
	b := w.buf
	for {
		n, err := retry(func() (int, error) { return unix.Read(w.fd, b[:]) })
		switch {
		case err == unix.EAGAIN:
			return nil
		case err != nil:
			return err
		}
		for p := b[:n]; len(p) >= unix.SizeofInotifyEvent; {
			name := binary.NativeEndian.Uint32(p[inotifyLen:])
			w.heard(int32(binary.NativeEndian.Uint32(p)), binary.NativeEndian.Uint32(p[inotifyMask:]), name > 0)
			p = p[unix.SizeofInotifyEvent+int(name):]
		}
		if n < len(b)-unix.SizeofInotifyEvent-glanceName-1 { // otherwise another report had no room
			return nil
		}
	}
}

// heard counts a report of a change in a directory, or of something in it.
func (w *witness) heard(wd int32, event uint32, named bool) {
	if event&unix.IN_Q_OVERFLOW != 0 {
		for _, d := range w.dirs {
			d.reported += lostReports
		}
		return
	}
	d := w.dirs[wd]
	if d == nil || named && event&unix.IN_ATTRIB != 0 {
		return
	}
	if d.reported++; event&unix.IN_IGNORED != 0 {
		d.reported += lostReports
	}
}

// lostReports are more reports than any change causes.
const lostReports = 1000

// inotifyLen is the offset of the length of the name in struct inotify_event, in bytes.
const inotifyLen = int(unsafe.Offsetof(unix.InotifyEvent{}.Len))

// close ends the observation.
func (d *watchedDir) close() {
	w := d.w
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = unix.InotifyRmWatch(w.fd, uint32(d.wd)) // fails if the directory has gone
	_ = w.read()                                   // nobody else may ever do
	delete(w.dirs, d.wd)
	closeFD(d.fd)
}

func (w *witness) close() {
	if w.fd > 0 {
		closeFD(w.fd)
		witnesses.Add(-1)
	}
}
