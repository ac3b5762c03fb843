package fusefs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// covered reports whether anything is mounted on a directory of the mount, in
// any mount namespace that can be read. It also returns true if other users may
// have namespaces that cannot be read. The link of a process to its namespace
// would identify the namespace, but reading that link waits while the process
// executes another program, which a file system may delay. Therefore the first
// mount of a namespace identifies it.
func (m *Mount) covered() bool {
	st := m.dev.Load()
	dev := fmt.Appendf(nil, "%d:%d", unix.Major(st), unix.Minor(st))
	seen := make(map[string]bool)
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		f, err := os.Open(p + "/mountinfo")
		if err != nil {
			if m.cfg.AllowOther && errors.Is(err, fs.ErrPermission) {
				return true
			}
			continue // the process has ended
		}
		r := bufio.NewReader(f)
		first, err := r.ReadBytes('\n')
		if err != nil || seen[string(first)] {
			f.Close()
			continue
		}
		rest, err := io.ReadAll(r)
		f.Close()
		if err == nil {
			seen[string(first)] = true
			if covers(append(first, rest...), dev) {
				return true
			}
		}
	}
	return false
}

// covers reports whether a mount table (proc(5), mountinfo) has a mount on top
// of a mount of device dev.
func covers(mounts, dev []byte) bool {
	ours := make(map[string]bool)
	for line := range bytes.Lines(mounts) {
		if f := bytes.Fields(line); len(f) > 2 && bytes.Equal(f[2], dev) {
			ours[string(f[0])] = true
		}
	}
	for line := range bytes.Lines(mounts) {
		if f := bytes.Fields(line); len(f) > 2 && ours[string(f[1])] {
			return true
		}
	}
	return false
}
