package fusefs

import (
	"encoding/binary"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// epochMinor is the first FUSE minor version with FUSE_NOTIFY_INC_EPOCH: Linux
// 6.16.
const epochMinor = 44

// lendNames lets the kernel keep names of delegated directories, if all of them
// can be taken back.
func (m *Mount) lendNames() {
	var st unix.Stat_t
	if unix.Stat(m.cfg.Point, &st) == nil {
		m.dev.Store(st.Dev)
		m.lends.Store(m.server.KernelSettings().Minor >= epochMinor)
	}
}

// An epoch says which names the kernel must not use any more. The kernel
// compares the time when it asked for a name with the last notification to look
// up all names. All names that are dropped at a time thus need only one
// notification, and one look at the mount tables.
type epoch struct {
	mu     sync.Mutex
	began  uint64 // tick before the last notification: names told earlier are void
	barred uint64 // tick before the last look that ruled a notification out
}

// nextEpoch voids names that were told at tick told, and returns false if the
// caller must wait for them instead. The caller asks at tick asked, which is
// later.
//
// When the kernel must look up a directory anew, it unmounts file systems
// mounted on it. nextEpoch therefore sends no notification while anything is
// mounted inside the mount.
func (m *Mount) nextEpoch(told, asked uint64) bool {
	e := &m.epoch
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case told < e.began:
		return true
	case asked < e.barred:
		return false
	}
	began := m.tick()
	if m.covered() {
		e.barred = began
		return false
	}
	e.began = m.tick()
	m.noting.RLock()
	defer m.noting.RUnlock()
	if !m.noted {
		_, _ = unix.Write(m.notifyFD, epochNote())
	}
	return true
}

// epochNote is FUSE_NOTIFY_INC_EPOCH, which go-fuse does not have.
func epochNote() []byte {
	const headLen = 16
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, headLen), headLen)
	b = binary.NativeEndian.AppendUint32(b, uint32(-fuse.NOTIFY_INC_EPOCH))
	return binary.NativeEndian.AppendUint64(b, 0) // no answer to a request
}
