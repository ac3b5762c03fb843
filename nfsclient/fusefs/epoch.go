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

// enableNameLending lets the kernel cache names in delegated directories, if all of
// them can be recalled.
func (m *Mount) enableNameLending() {
	var st unix.Stat_t
	if unix.Stat(m.cfg.Point, &st) == nil {
		m.dev.Store(st.Dev)
		m.lendsNames.Store(m.server.KernelSettings().Minor >= epochMinor)
	}
}

// An epoch tells which names the kernel must no longer use. The kernel compares the
// time when it requested a name with the last notification to look up all names.
// All names that are dropped at one time thus need only one notification, and one
// scan of the mount tables.
type epoch struct {
	mu      sync.Mutex
	began   uint64 // tick before the last notification: names given earlier are invalid
	refused uint64 // tick before the last scan that ruled a notification out
}

// advanceEpoch invalidates names that were given at tick told, and returns false if
// the caller must wait for their expiry instead. asked is the tick of the call,
// which is later.
//
// When the kernel must look up a directory again, it unmounts file systems mounted
// on it. advanceEpoch therefore sends no notification while anything is mounted
// inside the mount.
func (m *Mount) advanceEpoch(told, asked uint64) bool {
	e := &m.epoch
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case told < e.began:
		return true
	case asked < e.refused:
		return false
	}
	began := m.nextTick()
	if m.hasSubmounts() {
		e.refused = began
		return false
	}
	e.began = m.nextTick()
	m.notifyMu.RLock()
	defer m.notifyMu.RUnlock()
	if !m.notifyClosed {
		_, _ = unix.Write(m.notifyFD, encodeEpochNote())
	}
	return true
}

// encodeEpochNote encodes FUSE_NOTIFY_INC_EPOCH, which go-fuse lacks.
func encodeEpochNote() []byte {
	const headLen = 16
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, headLen), headLen)
	b = binary.NativeEndian.AppendUint32(b, uint32(-fuse.NOTIFY_INC_EPOCH))
	return binary.NativeEndian.AppendUint64(b, 0) // not a reply to a request
}
