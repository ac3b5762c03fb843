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
// time. A descriptor opened later learns of the failure only if no other
// process has been told of it before. Only the descriptor through which data
// was written is thus sure to learn that the data was lost, so commit syncs all
// those descriptors.
//
// A successful sync may also overlap a sync that was told of lost data: an
// earlier sync of the same inode, or any other sync by the same description, which
// all files of an object may share. A sync therefore returns only after those, and
// its caller then reads the verifier or file.failed.
type disk struct {
	mount int         // a directory of the file system, always open
	lost  func(error) // called before a sync returns if data may be lost

	// The kernel's calls, replaced in tests.
	fsync, fdatasync, syncfs func(fd int) error

	mu        sync.Mutex
	dirty     map[uint64][]*file   // by inode number, the dirty files, until a sync of each has begun
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
	over chan struct{} // closed once the errors are valid
	own  error         // of the kernel
	err  error         // for the callers
}

func (d *disk) init(lost func(error)) {
	d.mount, d.lost = -1, lost
	d.fsync, d.fdatasync, d.syncfs = unix.Fsync, unix.Fdatasync, unix.Syncfs
	d.dirty, d.under = make(map[uint64][]*file), make(map[uint64][]*flight)
}

// wrote marks fl as dirty, after data was written through it.
func (d *disk) wrote(fl *file) {
	if fl.dirty.Load() { // a sync that is about to clear it comes after the write
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !fl.dirty.Swap(true) {
		d.dirty[fl.ino] = append(d.dirty[fl.ino], fl)
	}
}

// clean marks fl as not dirty. d.mu is held.
func (d *disk) clean(fl *file) {
	if !fl.dirty.Swap(false) {
		return
	}
	rest := slices.DeleteFunc(d.dirty[fl.ino], func(other *file) bool { return other == fl })
	if d.dirty[fl.ino] = rest; len(rest) == 0 {
		delete(d.dirty, fl.ino)
	}
}

// file syncs the data and attributes of a file.
func (d *disk) file(fl *file) error {
	d.mu.Lock()
	d.clean(fl)
	own := d.begin(fl)
	d.mu.Unlock()
	return d.inode(d.fsync, own)
}

// data syncs the data of a file, and the attributes needed to read it. The file
// stays dirty, for its other attributes.
func (d *disk) data(fl *file) error {
	d.mu.Lock()
	own := d.begin(fl)
	d.mu.Unlock()
	return d.inode(d.fdatasync, own)
}

// commit is file for all dirty files of fl's inode too, which may belong to
// other callers or wait to be closed. The error is that of fl; if another file
// has lost data, there is a new verifier.
func (d *disk) commit(fl *file) error {
	d.mu.Lock()
	d.clean(fl)
	flights := []*flight{d.begin(fl)}
	for _, other := range slices.Clone(d.dirty[fl.ino]) {
		d.clean(other)
		flights = append(flights, d.begin(other))
	}
	d.mu.Unlock()
	return d.inode(d.fsync, flights...)
}

// closing syncs fl if it is dirty, and returns once no sync by fl is running.
// Nobody would learn of a later error in writing back the page cache. fl is not
// in use.
func (d *disk) closing(fl *file) {
	if fl.dirty.Load() {
		_ = d.file(fl)
	}
	for _, running := range d.running(fl) { // a commit of another file
		<-running.over
	}
}

// abandon marks a file without a name as not dirty: nobody can read its data.
func (d *disk) abandon(fl *file) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clean(fl)
}

// settled reports whether closing fl would not wait for a disk.
func (d *disk) settled(fl *file) bool { return !fl.dirty.Load() && len(d.running(fl)) == 0 }

// running returns the running syncs by fl.
func (d *disk) running(fl *file) (out []*flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, flight := range d.under[fl.ino] {
		if flight.fl == fl {
			out = append(out, flight)
		}
	}
	return out
}

// begin starts a sync. d.mu is held.
func (d *disk) begin(fl *file) *flight {
	own := &flight{fl, make(chan struct{})}
	d.under[fl.ino] = append(d.under[fl.ino], own)
	return own
}

// inode runs the syncs that have begun, and returns the error of the first. It
// waits for others only after these are over, so that no two wait for each
// other.
func (d *disk) inode(call func(fd int) error, own ...*flight) (err error) {
	var heard []*flight
	for i, each := range own {
		ferr := d.fly(each, call)
		if i == 0 {
			err = ferr
		}
		heard = append(heard, d.land(each)...)
	}
	for _, other := range heard {
		<-other.over
	}
	return err
}

// fly makes the kernel's call of a sync.
func (d *disk) fly(own *flight, call func(fd int) error) error {
	err := uninterrupted(call, own.fl.fd)
	switch err {
	case nil:
	case unix.EINVAL: // from a file system that cannot sync single files
		err = d.all()
	default:
		own.fl.failed.Add(1)
		d.lost(err)
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
		if later.fl.failed == own.fl.failed { // perhaps by the same description
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
// the running round may already have passed its change. If the running round
// fails, the caller gets that error, because the round may have failed to write
// the change, and the kernel reports a failure to one round only.
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
	var heard error
	if before != nil {
		<-before.over
		heard = before.own
	}
	d.run(r, heard)
	return r.err
}

// run runs round r. heard is the error of the round before, if r's callers came
// during that one. The caller that created the next round, if any, runs that
// round.
func (d *disk) run(r *round, heard error) {
	if r.own = uninterrupted(d.syncfs, d.mount); r.own != nil {
		d.lost(r.own)
	}
	if r.err = r.own; r.err == nil {
		r.err = heard
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
