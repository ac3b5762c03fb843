//go:build linux

package posix

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A knownHandles remembers the kernel's handles of objects, by inode number
// and time of birth. To ask for one takes a descriptor of the object, which
// nothing else about an entry of a directory does. An object has one slot, and
// what comes there later takes its place.
//
// What was born just now may go, and the next get its inode number before the
// clock has moved. Such an object counts later, if it is held open since: nothing
// else has its number then, and what gets it afterwards was born later.
type knownHandles struct {
	held  func(vfs.Handle) bool // tells whether an object is open
	young bool                  // what was born just now counts at once

	mu    sync.Mutex
	slots []knownHandle // nil until the first is there
}

type knownHandle struct {
	ino   uint64
	birth unix.StatxTimestamp
	h     vfs.Handle
	young bool // it was born just now when it was remembered
}

// get returns the handle of an object. No time of birth: the file system has
// none.
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

// put takes note of the handle of an object.
func (k *knownHandles) put(ino uint64, birth unix.StatxTimestamp, h vfs.Handle) {
	young := bornNow(birth) && !k.young
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.slots == nil {
		k.slots = make([]knownHandle, handleSlots)
	}
	k.slots[ino%handleSlots] = knownHandle{ino, birth, h, young}
}

// bornNow tells whether another object could have the same time of birth.
func bornNow(birth unix.StatxTimestamp) bool {
	return time.Since(time.Unix(birth.Sec, int64(birth.Nsec))) < birthAge
}
