//go:build linux

package posix

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A knownHandles remembers the kernel's handles of objects, by inode number and
// birth time. Asking the kernel for a handle takes a descriptor of the object,
// which nothing else about a directory entry needs. Each object maps to one
// slot, and a later object replaces the content of the slot.
//
// An object that was just born may be removed, and the next object may get its
// inode number before the clock has moved. The handle of such an object is used
// later, if the object has stayed open: no other object had its number
// meanwhile, and any later one has a later birth time.
type knownHandles struct {
	held  func(vfs.Handle) bool // reports whether an object is open
	young bool                  // handles of just-born objects are used at once

	mu    sync.Mutex
	slots []knownHandle // nil until the first put
}

type knownHandle struct {
	ino   uint64
	birth unix.StatxTimestamp
	h     vfs.Handle
	young bool // the object was just born when it was remembered
}

// get returns the handle of an object. A zero birth means that the file system
// has no birth times.
func (k *knownHandles) get(ino uint64, birth unix.StatxTimestamp) (vfs.Handle, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.slots == nil || birth == (unix.StatxTimestamp{}) {
		return vfs.Handle{}, false
	}
	s := &k.slots[ino%handleSlots]
	if s.ino != ino || s.birth != birth {
		return vfs.Handle{}, false
	}
	if s.young {
		if bornNow(birth) || !k.held(s.h) {
			return vfs.Handle{}, false
		}
		s.young = false
	}
	return s.h, true
}

// put remembers the handle of an object.
func (k *knownHandles) put(ino uint64, birth unix.StatxTimestamp, h vfs.Handle) {
	young := bornNow(birth) && !k.young
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.slots == nil {
		k.slots = make([]knownHandle, handleSlots)
	}
	k.slots[ino%handleSlots] = knownHandle{ino, birth, h, young}
}

// bornNow reports whether another object could still get the same birth time.
func bornNow(birth unix.StatxTimestamp) bool {
	return time.Since(time.Unix(birth.Sec, int64(birth.Nsec))) < birthAge
}
