//go:build linux

package posix

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A disk puts what was changed on stable storage. Only its failures change the
// write verifier: an object that cannot be opened has lost nothing.
//
// Linux tells a failure to write once to each descriptor that was open by then,
// and to nobody who opens the file later. A sync that succeeds may thus stand
// beside an earlier one that has just heard of lost data, so it ends after those
// of the same inode that began before it, and its caller reads the verifier
// afterwards.
type disk struct {
	mount int         // a directory of the file system, which is always open
	lost  func(error) // told of data that may be lost, before the sync ends

	// The kernel's calls, but in tests.
	fsync, fdatasync, syncfs func(fd int) error

	mu        sync.Mutex
	last      map[uint64]chan struct{} // by inode number, the latest sync under way
	now, next *round                   // nil: none
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
	d.last = make(map[uint64]chan struct{})
}

// file syncs data and attributes of a file.
func (d *disk) file(fl *file) error { return d.inode(fl, d.fsync) }

// data syncs a file as far as its data need it.
func (d *disk) data(fl *file) error { return d.inode(fl, d.fdatasync) }

func (d *disk) inode(fl *file, call func(fd int) error) error {
	over := make(chan struct{})
	d.mu.Lock()
	before := d.last[fl.ino]
	d.last[fl.ino] = over
	d.mu.Unlock()

	err := uninterrupted(call, fl.fd)
	switch err {
	case nil:
	case unix.EINVAL: // by a file system that syncs no single files
		err = d.all()
	default:
		d.lost(err)
	}

	if before != nil {
		<-before
	}
	d.mu.Lock()
	if d.last[fl.ino] == over {
		delete(d.last, fl.ino)
	}
	d.mu.Unlock()
	close(over)
	return err
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
