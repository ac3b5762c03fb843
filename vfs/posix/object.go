//go:build linux

package posix

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// An object is a file system object in use: an O_PATH descriptor, which permits nothing but
// identifies the inode, and the files opened through it.
type object struct {
	h   vfs.Handle
	fd  int // O_PATH, or a lease's descriptor
	ino uint64
	typ vfs.Type

	birth unix.StatxTimestamp // see statObject
	mask  uint32

	copiedUp atomic.Pointer[copyUpIdentity] // what the object was last known as, or nil, see notice

	// wcc is held during a change and while the attributes before and after it are read. To
	// lock two, lock the smaller seq first.
	wcc         sync.Mutex
	seq         uint64
	changeBegun bool // for the change in progress, see attrCache; under wcc

	watched *watchedDir // or nil; under wcc

	failed atomic.Uint32 // counts the syncs that failed

	mu          sync.Mutex
	files       []*file
	windows     []*window
	run         readRun
	shared      atomic.Bool // fd and files are one description, see leaseToWrite; changes under mu
	residency   residency
	verdicts    []accessVerdict
	nextVerdict int // the next to be replaced

	opens atomic.Int32 // Files; changes under the cache's lock

	// refs becomes 0, or more than 0, only under the cache's lock, for readers or for writers.
	// hot says that getObject found the object since closeExcess last looked at it.
	refs atomic.Int64
	used atomic.Uint32 // tick of the last release
	hot  atomic.Bool

	// The cache's lock guards the rest.
	pinned           bool // by a lease
	removedFromCache bool // removed from the cache: the last release closes it
	removedFromFS    bool // removed from the file system too
	prev, next       *object
}

// findFile returns the file that w has opened, if any. o.mu is held.
func (o *object) findFile(w *credKey, acc access) *file {
	for _, fl := range o.files {
		if fl.acc == acc && fl.credKey.equals(w) {
			return fl
		}
	}
	return nil
}

// takeFiles removes the unused files that pick chooses, and returns them for the
// caller to close. o.mu is held.
func (o *object) takeFiles(pick func(*file) bool) []*file {
	var out []*file
	remaining := o.files[:0]
	for _, fl := range o.files {
		if fl.refs == 0 && pick(fl) {
			out = append(out, fl)
		} else {
			remaining = append(remaining, fl)
		}
	}
	clear(o.files[len(remaining):])
	o.files = remaining
	return out
}

// lockBoth locks wcc in a and b, which may be the same object, and returns the function that
// releases them.
func lockBoth(a, b *object) (unlock func()) {
	if a == b {
		a.wcc.Lock()
		return a.wcc.Unlock
	}
	if b.seq < a.seq {
		a, b = b, a
	}
	a.wcc.Lock()
	b.wcc.Lock()
	return func() {
		b.wcc.Unlock()
		a.wcc.Unlock()
	}
}
