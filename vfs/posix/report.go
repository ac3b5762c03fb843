//go:build linux

package posix

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readReports reads all reports, and moves the change attribute of each directory that others have
// changed. The witness's lock is held.
func (f *FS) readReports() {
	w := &f.witness
	var odd map[*watchedDir]bool
	onOther := func(d *watchedDir) {
		if odd == nil {
			odd = make(map[*watchedDir]bool)
		}
		d.unexpected, odd[d] = true, true
	}
	for {
		n, err := retryEINTR(func() (int, error) { return w.read(w.fd, w.buf) })
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			w.handleOverflow(onOther)
			break
		}
		for b := w.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			var e inotifyEvent
			e, b = nextReport(b)
			w.handleEvent(&e, onOther)
		}
		if n <= len(w.buf)-longestReport { // otherwise another one may not have fit
			break
		}
	}
	for d := range odd {
		if !d.unwatched {
			d.bumpChange()
		}
	}
}

// An inotifyEvent is a report as read.
type inotifyEvent struct {
	wd            int32
	event, cookie uint32
	name          []byte // in the buffer
}

// nextReport parses b's first struct inotify_event, and returns the rest.
func nextReport(b []byte) (e inotifyEvent, rest []byte) {
	e.wd = int32(binary.NativeEndian.Uint32(b))
	e.event = binary.NativeEndian.Uint32(b[inotifyMask:])
	e.cookie = binary.NativeEndian.Uint32(b[inotifyCookie:])
	end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[inotifyLen:]))
	e.name, _, _ = bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
	return e, b[end:]
}

// handleEvent processes a report, and calls onOther if it belongs to somebody else's change in a
// directory.
func (w *dirWitness) handleEvent(e *inotifyEvent, onOther func(*watchedDir)) {
	if e.event&unix.IN_Q_OVERFLOW != 0 {
		w.handleOverflow(onOther)
		return
	}
	d := w.dirs[e.wd]
	switch {
	case d == nil: // its watch was removed
	case e.event&unix.IN_IGNORED != 0:
		d.dropLocked()
	case len(e.name) > 0 && e.event&unix.IN_ATTRIB != 0: // about an object in the directory
	case !d.expectsEvent(e):
		onOther(d)
	}
}

// handleOverflow is handleEvent for reports that the kernel dropped.
func (w *dirWitness) handleOverflow(onOther func(*watchedDir)) {
	for _, d := range w.dirs {
		onOther(d)
	}
}

// expectsEvent reports whether a report is the next one for the change in progress.
func (d *watchedDir) expectsEvent(e *inotifyEvent) bool {
	if len(d.expected) == 0 || d.expected[0].event != e.event&nameEvents || d.expected[0].name != string(e.name) {
		return false
	}
	if d.matched > 0 && d.cookie != e.cookie { // from two renames
		return false
	}
	d.expected = d.expected[1:]
	d.matched++
	d.cookie = e.cookie
	return true
}

// The offsets in struct inotify_event, in bytes.
const (
	inotifyCookie = int(unsafe.Offsetof(unix.InotifyEvent{}.Cookie))
	inotifyLen    = int(unsafe.Offsetof(unix.InotifyEvent{}.Len))
)

// longestReport is the maximum length of a struct inotify_event with its name, in bytes, and
// reportsLen the number of bytes read at once.
const (
	longestReport = unix.SizeofInotifyEvent + unix.NAME_MAX + 1
	reportsLen    = 4096
)
