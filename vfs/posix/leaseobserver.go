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

// observedEvents are the changes of names and attributes of a file. The kernel
// reports link and unlink as IN_ATTRIB, because the number of links changes,
// and a change of the modification time alone as IN_MODIFY; for the other
// changes so reported, the kernel breaks the lease first. A change of the
// access time alone is reported as a read. IN_IGNORED is always reported.
const observedEvents = unix.IN_ATTRIB | unix.IN_MODIFY | unix.IN_MOVE_SELF

// writerEvents are the same but for the changes that the holder of a lease for
// writing makes itself. All other processes must open the file to write, which
// breaks the lease.
const writerEvents = observedEvents &^ unix.IN_MODIFY

// An observer is an inotify descriptor (inotify(7)), and the goroutine that
// reads from it.
type observer struct {
	fd    int // file's
	file  *os.File
	ended chan struct{}

	marks map[int]*mark // by watch descriptor; leases.mu guards it
}

// A mark is the watch of one inode, for all its holders. After a watch has
// ended, the kernel gives the watch descriptor to no other inode before it has
// given out all other positive numbers, so no event is taken for that of
// another inode.
type mark struct {
	wd      int
	holders []*leaseHolder
}

// observe notifies who about later events of o, which c may open. l.mu is held.
// All holders of an object's lease observe the same events.
func (f *FS) observe(who *leaseHolder, o *object, c *vfs.Cred, events uint32) error {
	l := &f.leases
	if l.observer == nil {
		ob, err := newObserver(l.changed)
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
		err = f.as(c, add)
	}
	switch {
	case err == unix.ENOSPC: // the user has too many watches
		return unix.EMFILE
	case err != nil:
		return err
	}
	m := ob.marks[wd]
	if m == nil {
		m = &mark{wd: wd}
		ob.marks[wd] = m
	}
	m.holders = append(m.holders, who)
	who.mark = m
	if nameless(o.fd) { // a removal before the watch causes no event
		l.unobserve(who)
		return unix.EAGAIN
	}
	return nil
}

// unobserve ends what observe began, if anything. l.mu is held.
func (l *leases) unobserve(who *leaseHolder) {
	m := who.mark
	if m == nil {
		return
	}
	who.mark = nil
	m.holders = slices.DeleteFunc(m.holders, func(h *leaseHolder) bool { return h == who })
	if ob := l.observer; len(m.holders) == 0 && ob.marks[m.wd] == m {
		delete(ob.marks, m.wd)
		_, _ = unix.InotifyRmWatch(ob.fd, uint32(m.wd)) // fails if the kernel has just ended the watch
	}
}

// changed notifies the holders of the watch that has an event. After lost
// events, it notifies all holders of watches.
func (l *leases) changed(wd int, event uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.observer == nil {
		return
	}
	marks := l.observer.marks
	if event&unix.IN_Q_OVERFLOW != 0 {
		for _, m := range marks {
			m.tell()
		}
		return
	}
	m := marks[wd]
	if m == nil { // all holders have left
		return
	}
	m.tell()
	if event&unix.IN_IGNORED != 0 {
		delete(marks, wd)
	}
}

// tell notifies the holders. leases.mu is held.
func (m *mark) tell() {
	for _, h := range m.holders {
		h.tell()
	}
}

// newObserver starts an observer that calls changed for each event.
func newObserver(changed func(wd int, event uint32)) (*observer, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	ob := &observer{fd: fd, file: os.NewFile(uintptr(fd), "inotify"), ended: make(chan struct{}), marks: make(map[int]*mark)}
	if ob.file.SetReadDeadline(time.Time{}) != nil { // the poller has no room for the descriptor
		_ = ob.file.Close()
		return nil, unix.EMFILE
	}
	go ob.run(changed)
	return ob, nil
}

// close ends the goroutine and all watches.
func (ob *observer) close() {
	_ = ob.file.Close()
	<-ob.ended
}

func (ob *observer) run(changed func(wd int, event uint32)) {
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
