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
type knownHandles struct {
	young bool // what was born just now too

	mu    sync.Mutex
	slots []knownHandle // nil until the first is there
}

type knownHandle struct {
	ino   uint64
	birth unix.StatxTimestamp
	h     vfs.Handle
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
	return s.h, s.ino == ino && s.birth == birth
}

// put takes note of the handle of an object. One that was born just now is
// left out: it may go, and the next get its inode number before the clock has
// moved.
func (k *knownHandles) put(ino uint64, birth unix.StatxTimestamp, h vfs.Handle) {
	if time.Since(time.Unix(birth.Sec, int64(birth.Nsec))) < birthAge && !k.young {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.slots == nil {
		k.slots = make([]knownHandle, handleSlots)
	}
	k.slots[ino%handleSlots] = knownHandle{ino, birth, h}
}
