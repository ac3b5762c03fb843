package fusefs

import (
	"encoding/binary"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// expire makes the kernel ask for n's attributes again before it uses them.
// Only who answers a request that keeps n alive in the kernel may call it: the
// kernel waits for a node that it is dropping.
func (m *Mount) expire(n *node) {
	_ = m.server.InodeNotify(n.id, -1, 0) // the kernel may have forgotten n
}

// expireLater is expire for who answers a READ: the kernel may be dropping n,
// and wait for that very answer.
func (m *Mount) expireLater(n *node) {
	m.notes.Go(func() { m.expire(n) })
}

// expireName makes the kernel look up a name in dir again before it uses it. As the
// kernel waits for requests about dir that are under way, none of them may wait for this.
func (m *Mount) expireName(dir *node, name string) {
	_, _ = unix.Write(m.notifyFD, entryNote(dir.id, name, fuse.EXPIRE_ONLY)) // the kernel may not know it
}

// entryNote is FUSE_NOTIFY_INVAL_ENTRY, which go-fuse has only in a form that
// takes the name from who has it open, or works below it.
func entryNote(dir uint64, name string, flags uint32) []byte {
	const headLen, noteLen = 16, 16
	size := headLen + noteLen + len(name) + 1
	b := make([]byte, 0, size)
	b = binary.NativeEndian.AppendUint32(b, uint32(size))
	b = binary.NativeEndian.AppendUint32(b, uint32(-fuse.NOTIFY_INVAL_ENTRY))
	b = binary.NativeEndian.AppendUint64(b, 0) // not an answer
	b = binary.NativeEndian.AppendUint64(b, dir)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
	b = binary.NativeEndian.AppendUint32(b, flags)
	return append(append(b, name...), 0)
}
