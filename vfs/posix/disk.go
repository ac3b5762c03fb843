//go:build linux

package posix

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A disk puts what was changed on stable storage. Only its failures change the
// write verifier: an object that cannot be opened has lost nothing.
//
// Linux tells a failure to write once to each descriptor that was open by then,
// and to nobody who opens the file later. A sync that succeeds may thus stand
// beside one that has just heard of lost data: an earlier one of the same inode, or
// any other by the same descriptor. It ends after those, and its caller reads the
// verifier afterwards, or file.failed.
type disk struct {
	mount int         // a directory of the file system, which is always open
	lost  func(error) // told of data that may be lost, before the sync ends

	// The kernel's calls, but in tests.
	fsync, fdatasync, syncfs func(fd int) error

	mu        sync.Mutex
	under     map[uint64][]*flight // by inode number, the syncs under way as they began
	now, next *round               // nil: none
}

// A flight is a sync of one inode.
type flight struct {
	fl   *file
	over chan struct{} // closed once the kernel has answered and lost was told
}

// A round is one sync of all that the file system has, for all who came before it
// began.
type round struct {
	over chan struct{}
	err  error // set then
}

func (d *disk) init(lost func(error)) {
	d.mount, d.lost = -1, lost
	d.fsync, d.fdatasync, d.syncfs = unix.Fsync, unix.Fdatasync, unix.Syncfs
	d.under = make(map[uint64][]*flight)
}

// file syncs data and attributes of a file.
func (d *disk) file(fl *file) error { return d.inode(fl, d.fsync) }

// data syncs a file as far as its data need it.
func (d *disk) data(fl *file) error { return d.inode(fl, d.fdatasync) }

func (d *disk) inode(fl *file, call func(fd int) error) error {
	own := &flight{fl, make(chan struct{})}
	d.mu.Lock()
	d.under[fl.ino] = append(d.under[fl.ino], own)
	d.mu.Unlock()

	err := uninterrupted(call, fl.fd)
	switch err {
	case nil:
	case unix.EINVAL: // by a file system that syncs no single files
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

// land ends a sync, and returns those that may have heard what it should have.
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

// all syncs all that the file system has. One round is under way at a time, however
// many want one: who comes meanwhile has a change that it may have passed already,
// and waits for the next.
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

// run is a round. The next one, if somebody waits for it, is that one's to run.
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
