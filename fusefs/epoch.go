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

// epochMinor is the version of FUSE that has FUSE_NOTIFY_INC_EPOCH: Linux 6.16.
const epochMinor = 44

// lendNames lets the kernel keep names of held directories, if all can be taken back.
func (m *Mount) lendNames() {
	var st unix.Stat_t
	if unix.Stat(m.cfg.Point, &st) == nil {
		m.dev.Store(st.Dev)
		m.lends.Store(m.server.KernelSettings().Minor >= epochMinor)
	}
}

// An epoch is which names the kernel must not use any more: it compares when it asked
// for a name with when it was last told to look up all. All that is dropped at a time
// thus needs one note, and one look at what is mounted.
type epoch struct {
	mu     sync.Mutex
	began  uint64 // tick before the last note: names told before that are void
	barred uint64 // tick before the last look that found that there must be none
}

// nextEpoch has names that were told at a tick void, and returns false where they must
// be waited for. It was asked at a later tick.
//
// The kernel unmounts what is mounted on a directory that it has to look up anew, so
// that it must not where anything is mounted in the mount.
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
	return binary.NativeEndian.AppendUint64(b, 0) // not an answer
}

// covered tells whether anything is mounted on a directory of the mount, in any
// namespace of which we may know, or other users may have namespaces that we must not
// look into. The link of a process to its namespace would tell the namespaces apart, but
// keeps who reads it waiting while the process begins another program, which a file
// system may hold up: so they are told apart by the mount that they have first.
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
			continue // it has ended
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

// covers tells whether a table of mounts (proc(5), mountinfo) has one that stands on
// one of a device.
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
