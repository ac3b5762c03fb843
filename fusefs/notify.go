package fusefs

import (
	"encoding/binary"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// expire makes the kernel ask for n's attributes again before using them. Call
// expire only while answering a request that keeps n alive in the kernel: the
// kernel blocks the note until a node that is being dropped is gone.
func (m *Mount) expire(n *node) {
	_ = m.server.InodeNotify(n.id, -1, 0) // the kernel may have forgotten n
}

// expireLater is expire for the answerer of a READ: the kernel may be dropping
// n, and waiting for that very answer.
func (m *Mount) expireLater(n *node) {
	m.notes.Go(func() { m.expire(n) })
}

// expireName makes the kernel look up a name in dir again before using it. No
// request may wait for expireName: the kernel itself waits for the requests
// about dir that are under way. Not even SIGKILL ends that wait, and a killed
// process that waits keeps the mount, and with it these requests, until the
// mount is ended by force.
func (m *Mount) expireName(dir *node, name string) {
	_, _ = unix.Write(m.notifyFD, entryNote(dir.id, name, fuse.EXPIRE_ONLY)) // the kernel may not know the name
}

// entryNote encodes FUSE_NOTIFY_INVAL_ENTRY. go-fuse offers only forms that
// take the name away from processes that have it open or work below it.
func entryNote(dir uint64, name string, flags uint32) []byte {
	const headLen, noteLen = 16, 16
	size := headLen + noteLen + len(name) + 1
	b := make([]byte, 0, size)
	b = binary.NativeEndian.AppendUint32(b, uint32(size))
	b = binary.NativeEndian.AppendUint32(b, uint32(-fuse.NOTIFY_INVAL_ENTRY))
	b = binary.NativeEndian.AppendUint64(b, 0) // zero: not an answer to a request
	b = binary.NativeEndian.AppendUint64(b, dir)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
	b = binary.NativeEndian.AppendUint32(b, flags)
	return append(append(b, name...), 0)
}
