//go:build linux

package posix

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A disk puts changes on stable storage. Only its failures change the write
// verifier: failing to open an object loses no data.
//
// Linux reports a write failure once to each descriptor that was open at the
// time, and never to descriptors opened later. A successful sync may thus
// overlap a sync that was told of lost data: an earlier sync of the same inode,
// or any other sync by the same descriptor. A sync therefore returns only after
// those, and its caller then reads the verifier or file.failed.
type disk struct {
	mount int         // a directory of the file system, always open
	lost  func(error) // called before a sync returns if data may be lost

	// The kernel's calls, replaced in tests.
	fsync, fdatasync, syncfs func(fd int) error

	mu        sync.Mutex
	under     map[uint64][]*flight // by inode number, the running syncs in order of their start
	now, next *round               // nil: none
}

// A flight is a sync of one inode.
type flight struct {
	fl   *file
	over chan struct{} // closed once the kernel has answered and lost has returned
}

// A round is one sync of the whole file system, for all callers that came
// before it began.
type round struct {
	over chan struct{}
	err  error // valid once over is closed
}

func (d *disk) init(lost func(error)) {
	d.mount, d.lost = -1, lost
	d.fsync, d.fdatasync, d.syncfs = unix.Fsync, unix.Fdatasync, unix.Syncfs
	d.under = make(map[uint64][]*flight)
}

// file syncs the data and attributes of a file.
func (d *disk) file(fl *file) error { return d.inode(fl, d.fsync) }

// data syncs the data of a file, and the attributes needed to read it.
func (d *disk) data(fl *file) error { return d.inode(fl, d.fdatasync) }

func (d *disk) inode(fl *file, call func(fd int) error) error {
	own := &flight{fl, make(chan struct{})}
	d.mu.Lock()
	d.under[fl.ino] = append(d.under[fl.ino], own)
	d.mu.Unlock()

	err := uninterrupted(call, fl.fd)
	switch err {
	case nil:
	case unix.EINVAL: // from a file system that cannot sync single files
		err = d.all()
	default:
		fl.failed.Add(1)
		d.lost(err)
	}
	for _, other := range d.land(own) {
		<-other.over
	}
	return err
}

// land ends a sync. It returns the running syncs to which the kernel may have
// reported a failure instead of to this one.
func (d *disk) land(own *flight) (heard []*flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(own.over)
	ino := own.fl.ino
	under := d.under[ino]
	at := slices.Index(under, own)
	heard = slices.Clone(under[:at])
	for _, later := range under[at+1:] {
		if later.fl == own.fl {
			heard = append(heard, later)
		}
	}
	if d.under[ino] = slices.Delete(under, at, at+1); len(under) == 1 {
		delete(d.under, ino)
	}
	return heard
}

// all syncs the whole file system. One round runs at a time, for any number of
// callers. A caller that comes during a round waits for the next one, because
// the running round may already have passed its change.
func (d *disk) all() error {
	r := &round{over: make(chan struct{})}
	d.mu.Lock()
	before := d.now
	mine := d.next == nil
	switch {
	case before == nil:
		d.now = r
	case mine:
		d.next = r
	default:
		r = d.next
	}
	d.mu.Unlock()
	if !mine {
		<-r.over
		return r.err
	}
	if before != nil {
		<-before.over
	}
	d.run(r)
	return r.err
}

// run runs round r. The caller that created the next round, if any, runs that
// round.
func (d *disk) run(r *round) {
	if r.err = uninterrupted(d.syncfs, d.mount); r.err != nil {
		d.lost(r.err)
	}
	d.mu.Lock()
	d.now, d.next = d.next, nil
	d.mu.Unlock()
	close(r.over)
}

func uninterrupted(call func(fd int) error, fd int) error {
	_, err := retry(func() (int, error) { return 0, call(fd) })
	return err
}
