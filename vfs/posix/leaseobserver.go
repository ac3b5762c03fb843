//go:build linux

package posix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// observedEvents are the changes to a file's names and attributes. The kernel reports link and
// unlink as IN_ATTRIB, because the link count changes, and a change to the modification time alone
// as IN_MODIFY; for the other changes so reported, the kernel breaks the lease first. A change to
// the access time alone is reported as a read. IN_IGNORED is always reported.
const observedEvents = unix.IN_ATTRIB | unix.IN_MODIFY | unix.IN_MOVE_SELF

// writerEvents are the same without the changes that the holder of a write lease makes itself. All
// other processes must open the file to write, which breaks the lease.
const writerEvents = observedEvents &^ unix.IN_MODIFY

// An inotifyWatcher is an inotify descriptor (inotify(7)), and the goroutine that
// reads from it.
type inotifyWatcher struct {
	fd    int // file's
	file  *os.File
	ended chan struct{}

	marks map[int]*dirMark // by watch descriptor; leases.mu guards it
}

// A dirMark is the watch on one inode, for all its holders. The kernel reuses a watch descriptor
// only after all other positive numbers, so no event is taken for another inode's.
type dirMark struct {
	wd      int
	holders []*leaseHolder
}

// observeEvents notifies who about later events on o, which c may open. l.mu is held. All holders
// of an object's lease observe the same events.
func (f *FS) observeEvents(who *leaseHolder, o *object, c *vfs.Cred, events uint32) error {
	l := &f.leases
	if l.observer == nil {
		ob, err := newObserver(l.notifyWatch)
		if err != nil {
			return err
		}
		l.observer = ob
	}
	ob := l.observer
	var wd int
	add := func() (err error) {
		wd, err = l.addWatch(ob.fd, magicPath(o.fd), events)
		return err
	}
	err := add()
	if err == unix.EACCES && f.switches { // the daemon lacks CAP_DAC_READ_SEARCH
		err = f.runAs(c, add)
	}
	switch {
	case err == unix.ENOSPC: // the user has too many watches
		return unix.EMFILE
	case err != nil:
		return err
	}
	m := ob.marks[wd]
	if m == nil {
		m = &dirMark{wd: wd}
		ob.marks[wd] = m
	}
	m.holders = append(m.holders, who)
	who.mark = m
	if hasNoName(o.fd) { // a removal before the watch causes no event
		l.stopObserving(who)
		return unix.EAGAIN
	}
	return nil
}

// stopObserving undoes observeEvents, if it was called. l.mu is held.
func (l *leases) stopObserving(who *leaseHolder) {
	m := who.mark
	if m == nil {
		return
	}
	who.mark = nil
	m.holders = slices.DeleteFunc(m.holders, func(h *leaseHolder) bool { return h == who })
	if ob := l.observer; len(m.holders) == 0 && ob.marks[m.wd] == m {
		delete(ob.marks, m.wd)
		_, _ = unix.InotifyRmWatch(ob.fd, uint32(m.wd)) // fails if the kernel has just removed the watch
	}
}

// notifyWatch notifies the holders whose watch has an event. After lost events, it notifies all
// watches' holders.
func (l *leases) notifyWatch(wd int, event uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.observer == nil {
		return
	}
	marks := l.observer.marks
	if event&unix.IN_Q_OVERFLOW != 0 {
		for _, m := range marks {
			m.notifyHolders()
		}
		return
	}
	m := marks[wd]
	if m == nil { // all holders have left
		return
	}
	m.notifyHolders()
	if event&unix.IN_IGNORED != 0 {
		delete(marks, wd)
	}
}

// notifyHolders notifies the holders. leases.mu is held.
func (m *dirMark) notifyHolders() {
	for _, h := range m.holders {
		h.notifyOnce()
	}
}

// newObserver starts an observer that calls changed for each event.
func newObserver(changed func(wd int, event uint32)) (*inotifyWatcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	ob := &inotifyWatcher{fd: fd, file: os.NewFile(uintptr(fd), "inotify"), ended: make(chan struct{}), marks: make(map[int]*dirMark)}
	if ob.file.SetReadDeadline(time.Time{}) != nil { // the poller cannot add the descriptor
		_ = ob.file.Close()
		return nil, unix.EMFILE
	}
	go ob.readEvents(changed)
	return ob, nil
}

// closeWatches stops the goroutine and removes all watches.
func (ob *inotifyWatcher) closeWatches() {
	_ = ob.file.Close()
	<-ob.ended
}

func (ob *inotifyWatcher) readEvents(changed func(wd int, event uint32)) {
	defer close(ob.ended)
	var b [64 * unix.SizeofInotifyEvent]byte
	for {
		n, err := ob.file.Read(b[:])
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			panic(fmt.Sprintf("vfs/posix: reading events: %v", err)) // inotify has no other errors
		}
		// No event has a name, because only files are watched.
		for p := b[:n]; len(p) >= unix.SizeofInotifyEvent; p = p[unix.SizeofInotifyEvent:] {
			changed(int(int32(binary.NativeEndian.Uint32(p))), binary.NativeEndian.Uint32(p[inotifyMask:]))
		}
	}
}

// inotifyMask is the offset of mask in struct inotify_event, in bytes.
const inotifyMask = int(unsafe.Offsetof(unix.InotifyEvent{}.Mask))
