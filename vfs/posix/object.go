//go:build linux

package posix

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// An object is a file system object in use: an O_PATH descriptor, which permits
// nothing but stands for the inode, and the files opened through it.
type object struct {
	h   vfs.Handle
	fd  int // O_PATH, or the descriptor of a lease
	ino uint64
	typ vfs.Type

	birth unix.StatxTimestamp // see statObject
	mask  uint32

	// wcc is held during a change and while the attributes before and after it
	// are read. To take two, take the one of the smaller seq first.
	wcc   sync.Mutex
	seq   uint64
	begun bool // of the change under way, see attrCache; under wcc

	watched *watchedDir // or nil; under wcc

	failed atomic.Uint32 // counts the syncs that failed

	mu          sync.Mutex
	files       []*file
	windows     []*window
	run         readRun
	shared      atomic.Bool // fd and files are one description, see leaseToWrite; changes under mu
	residency   residency
	verdicts    []verdict
	nextVerdict int // the next to be replaced

	opens atomic.Int32 // Files; changes under the cache's lock

	// refs becomes 0, or more than 0, only under the cache's lock, for readers or for writers. hot
	// says that a get found the object since shrink last looked at it.
	refs atomic.Int64
	used atomic.Uint32 // tick of the last release
	hot  atomic.Bool

	// The cache's lock guards the rest.
	pinned     bool // by a lease
	dead       bool // removed from the cache: the last release closes it
	gone       bool // removed from the file system too
	prev, next *object
}

// find returns the file that w has opened, if any. o.mu is held.
func (o *object) find(w *credKey, acc access) *file {
	for _, fl := range o.files {
		if fl.acc == acc && fl.credKey.equal(w) {
			return fl
		}
	}
	return nil
}

// take removes the unused files that pick chooses, and returns them for the
// caller to close. o.mu is held.
func (o *object) take(pick func(*file) bool) []*file {
	var out []*file
	kept := o.files[:0]
	for _, fl := range o.files {
		if fl.refs == 0 && pick(fl) {
			out = append(out, fl)
		} else {
			kept = append(kept, fl)
		}
	}
	clear(o.files[len(kept):])
	o.files = kept
	return out
}

// lockBoth takes the wcc locks of a and b, which may be the same object, and
// returns the function that releases them.
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
