//go:build linux

package posix

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A knownHandles caches kernel handles by inode number and birth time. name_to_handle_at(2) needs a
// descriptor, which nothing else about a directory entry does. Each object maps to one slot, and a
// later object replaces its content.
//
// An object that was just born may be removed, and the next object may get its inode number before
// the clock has moved. The handle of such an object is used later, if the object has stayed open:
// no other object had its number in the meantime, and any later one has a later birth time.
type knownHandles struct {
	isOpen func(vfs.Handle) bool // reports whether an object is open
	young  bool                  // just-born objects' handles are used at once

	mu    sync.Mutex
	slots []knownHandle // nil until the first put
}

type knownHandle struct {
	ino   uint64
	birth unix.StatxTimestamp
	h     vfs.Handle
	young bool // the object was just born when it was remembered
}

// getHandle returns an object's handle. A zero birth means that the file system has no birth times.
func (k *knownHandles) getHandle(ino uint64, birth unix.StatxTimestamp) (vfs.Handle, bool) {
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
		if bornNow(birth) || !k.isOpen(s.h) {
			return vfs.Handle{}, false
		}
		s.young = false
	}
	return s.h, true
}

// putHandle caches an object's handle.
func (k *knownHandles) putHandle(ino uint64, birth unix.StatxTimestamp, h vfs.Handle) {
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
