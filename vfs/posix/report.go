//go:build linux

package posix

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readReports reads all reports, and moves the change attributes of directories that others
// have changed. The witness's lock is held.
func (f *FS) readReports() {
	w := &f.witness
	var odd map[*watchedDir]bool
	strange := func(d *watchedDir) {
		if odd == nil {
			odd = make(map[*watchedDir]bool)
		}
		d.odd, odd[d] = true, true
	}
	for {
		n, err := retry(func() (int, error) { return w.read(w.fd, w.buf) })
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			w.lost(strange)
			break
		}
		for b := w.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			var e heard
			e, b = nextReport(b)
			w.hear(&e, strange)
		}
		if n <= len(w.buf)-longestReport { // otherwise another one may have had no room
			break
		}
	}
	for d := range odd {
		if !d.gone {
			d.count()
		}
	}
}

// A heard is a report as read.
type heard struct {
	wd            int32
	event, cookie uint32
	name          []byte // in the buffer
}

// nextReport parses the first struct inotify_event of b, and returns what follows it.
func nextReport(b []byte) (e heard, rest []byte) {
	e.wd = int32(binary.NativeEndian.Uint32(b))
	e.event = binary.NativeEndian.Uint32(b[inotifyMask:])
	e.cookie = binary.NativeEndian.Uint32(b[inotifyCookie:])
	end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[inotifyLen:]))
	e.name, _, _ = bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
	return e, b[end:]
}

// hear takes a report, and tells strange of a directory that it is of somebody else's change.
func (w *witness) hear(e *heard, strange func(*watchedDir)) {
	if e.event&unix.IN_Q_OVERFLOW != 0 {
		w.lost(strange)
		return
	}
	d := w.dirs[e.wd]
	switch {
	case d == nil: // its watch has ended
	case e.event&unix.IN_IGNORED != 0:
		d.dropLocked()
	case len(e.name) > 0 && e.event&unix.IN_ATTRIB != 0: // of an object in the directory
	case !d.expects(e):
		strange(d)
	}
}

// lost is hear for reports that the kernel had no room for.
func (w *witness) lost(strange func(*watchedDir)) {
	for _, d := range w.dirs {
		strange(d)
	}
}

// expects reports whether a report is the next one of the change under way.
func (d *watchedDir) expects(e *heard) bool {
	if len(d.due) == 0 || d.due[0].event != e.event&nameEvents || d.due[0].name != string(e.name) {
		return false
	}
	if d.met > 0 && d.cookie != e.cookie { // of two renames
		return false
	}
	d.due = d.due[1:]
	d.met++
	d.cookie = e.cookie
	return true
}

// The offsets in struct inotify_event, in bytes.
const (
	inotifyCookie = int(unsafe.Offsetof(unix.InotifyEvent{}.Cookie))
	inotifyLen    = int(unsafe.Offsetof(unix.InotifyEvent{}.Len))
)

// longestReport is the longest struct inotify_event with its name, in bytes, and reportsLen
// how many are read at once.
const (
	longestReport = unix.SizeofInotifyEvent + unix.NAME_MAX + 1
	reportsLen    = 4096
)
