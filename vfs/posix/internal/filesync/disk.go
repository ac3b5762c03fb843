//go:build linux

package filesync

import (
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Disk puts changes to one file system on stable storage. Only its failures change the write
// verifier: failing to open an object loses no data.
//
// Linux reports a write failure once to each descriptor that was open at the time. A descriptor
// opened later sees the failure only if no other process has seen it before. Only the descriptor
// through which data was written is thus sure to report its loss, so SyncInode syncs all those
// descriptors.
//
// A successful sync may also overlap a sync to which lost data was reported: an earlier sync of the
// same inode, or any other sync through the same description, which an object's files may share. A
// sync therefore returns only after those, and its caller then reads the verifier or File.Failed.
type Disk struct {
	Mount  int         // a directory in the file system, always open
	onLoss func(error) // called before a sync returns if data may be lost

	// The kernel's calls, replaced in tests.
	Fsync, Fdatasync, Syncfs func(fd int) error

	mu        sync.Mutex
	dirty     map[uint64][]*File     // by inode number, the dirty files, until their sync begins
	under     map[uint64][]*fileSync // by inode number, the running syncs in start order
	now, next *syncRound             // nil: none
}

// A File is an open file. Its owner sets the exported fields before the first sync.
type File struct {
	FD  int
	Ino uint64

	// Failed counts the syncs that failed, in all files that may share a description.
	Failed *atomic.Uint32

	dirty atomic.Bool // written to since the last sync
}

// A fileSync is one inode's sync.
type fileSync struct {
	fl   *File
	over chan struct{} // closed once the system call and onLoss have returned
}

// A syncRound is one syncfs(2), for all callers that arrived before it began.
type syncRound struct {
	over chan struct{} // closed once the errors are valid
	own  error         // from the kernel
	err  error         // for the callers
}

// Init prepares d, whose Mount must be set before the first sync.
func (d *Disk) Init(onLoss func(error)) {
	d.Mount, d.onLoss = -1, onLoss
	d.Fsync, d.Fdatasync, d.Syncfs = unix.Fsync, unix.Fdatasync, unix.Syncfs
	d.dirty, d.under = make(map[uint64][]*File), make(map[uint64][]*fileSync)
}

// MarkDirty marks fl as dirty, after data was written through it.
func (d *Disk) MarkDirty(fl *File) {
	if fl.dirty.Load() { // a sync that is about to clear it comes after the write
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !fl.dirty.Swap(true) {
		d.dirty[fl.Ino] = append(d.dirty[fl.Ino], fl)
	}
}

// markClean marks fl as not dirty. d.mu is held.
func (d *Disk) markClean(fl *File) {
	if !fl.dirty.Swap(false) {
		return
	}
	rest := slices.DeleteFunc(d.dirty[fl.Ino], func(other *File) bool { return other == fl })
	if d.dirty[fl.Ino] = rest; len(rest) == 0 {
		delete(d.dirty, fl.Ino)
	}
}

// SyncFile syncs a file's data and attributes.
func (d *Disk) SyncFile(fl *File) error {
	d.mu.Lock()
	d.markClean(fl)
	own := d.beginSync(fl)
	d.mu.Unlock()
	return d.runSyncs(d.Fsync, own)
}

// SyncData syncs a file's data, and the attributes needed to read it. The file stays dirty, for its
// other attributes.
func (d *Disk) SyncData(fl *File) error {
	d.mu.Lock()
	own := d.beginSync(fl)
	d.mu.Unlock()
	return d.runSyncs(d.Fdatasync, own)
}

// SyncInode is SyncFile for fl and all other dirty files with its inode, which may belong to other
// callers or wait to be closed. The error is fl's; if another file has lost data, there is a new
// verifier.
func (d *Disk) SyncInode(fl *File) error {
	d.mu.Lock()
	d.markClean(fl)
	flights := []*fileSync{d.beginSync(fl)}
	for _, other := range slices.Clone(d.dirty[fl.Ino]) {
		d.markClean(other)
		flights = append(flights, d.beginSync(other))
	}
	d.mu.Unlock()
	return d.runSyncs(d.Fsync, flights...)
}

// SyncForClose syncs fl if it is dirty, and returns once no sync through fl is running. A later
// writeback error would be reported to no caller. fl is not in use.
func (d *Disk) SyncForClose(fl *File) {
	if fl.dirty.Load() {
		_ = d.SyncFile(fl)
	}
	for _, running := range d.runningSyncs(fl) { // another file's commit
		<-running.over
	}
}

// AbandonFile marks an unlinked file as clean: its data can no longer be read.
func (d *Disk) AbandonFile(fl *File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.markClean(fl)
}

// IsSettled reports whether closing fl would not wait for a disk.
func (d *Disk) IsSettled(fl *File) bool {
	return !fl.dirty.Load() && len(d.runningSyncs(fl)) == 0
}

// IsIdle reports whether no file is dirty and no sync is running, for tests.
func (d *Disk) IsIdle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.dirty) == 0 && len(d.under) == 0
}

// runningSyncs returns the running syncs by fl.
func (d *Disk) runningSyncs(fl *File) (out []*fileSync) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, flight := range d.under[fl.Ino] {
		if flight.fl == fl {
			out = append(out, flight)
		}
	}
	return out
}

// beginSync starts a sync. d.mu is held.
func (d *Disk) beginSync(fl *File) *fileSync {
	own := &fileSync{fl, make(chan struct{})}
	d.under[fl.Ino] = append(d.under[fl.Ino], own)
	return own
}

// runSyncs runs the syncs that have begun, and returns the first one's error. It waits for others
// only after these, so that no two wait for each other.
func (d *Disk) runSyncs(call func(fd int) error, own ...*fileSync) (err error) {
	var overlapping []*fileSync
	for i, each := range own {
		ferr := d.callSync(each, call)
		if i == 0 {
			err = ferr
		}
		overlapping = append(overlapping, d.endSync(each)...)
	}
	for _, other := range overlapping {
		<-other.over
	}
	return err
}

// callSync makes a sync's system call.
func (d *Disk) callSync(own *fileSync, call func(fd int) error) error {
	err := retryCall(call, own.fl.FD)
	switch err {
	case nil:
	case unix.EINVAL: // from a file system that cannot sync single files
		err = d.SyncAll()
	default:
		own.fl.Failed.Add(1)
		d.onLoss(err)
	}
	return err
}

// endSync ends a sync. It returns the running syncs to which the kernel may have
// reported a failure instead of to this one.
func (d *Disk) endSync(own *fileSync) (overlapping []*fileSync) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(own.over)
	ino := own.fl.Ino
	under := d.under[ino]
	at := slices.Index(under, own)
	overlapping = slices.Clone(under[:at])
	for _, later := range under[at+1:] {
		if later.fl.Failed == own.fl.Failed { // perhaps by the same description
			overlapping = append(overlapping, later)
		}
	}
	if d.under[ino] = slices.Delete(under, at, at+1); len(under) == 1 {
		delete(d.under, ino)
	}
	return overlapping
}

// SyncAll syncs the whole file system. One round runs at a time, for any number of callers. A
// caller that arrives during a round waits for the next one, because the running round may already
// have passed its change. If the running round fails, the caller gets that error, because the round
// may have failed to write the change, and the kernel reports a failure to one round only.
func (d *Disk) SyncAll() error {
	r := &syncRound{over: make(chan struct{})}
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
	var previousErr error
	if before != nil {
		<-before.over
		previousErr = before.own
	}
	d.runRound(r, previousErr)
	return r.err
}

// runRound runs round r. previousErr is the previous round's error, if r's callers arrived during it. The
// caller that created the next round, if any, runs that round.
func (d *Disk) runRound(r *syncRound, previousErr error) {
	if r.own = retryCall(d.Syncfs, d.Mount); r.own != nil {
		d.onLoss(r.own)
	}
	if r.err = r.own; r.err == nil {
		r.err = previousErr
	}
	d.mu.Lock()
	d.now, d.next = d.next, nil
	d.mu.Unlock()
	close(r.over)
}

// retryCall makes a system call until it is not interrupted.
func retryCall(call func(fd int) error, fd int) error {
	for {
		if err := call(fd); err != unix.EINTR {
			return err
		}
	}
}
