package fusefs

import (
	"encoding/binary"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// expireAttr makes the kernel fetch n's attributes again before using them. Call
// expireAttr only while handling a request that keeps n alive in the kernel: the
// notification blocks until an inode that is being evicted is gone.
func (m *Mount) expireAttr(n *node) {
	n.trustedUntil.clear()
	_ = m.server.InodeNotify(n.id, -1, 0) // the kernel may have forgotten n
}

// expireAttrLater expires n's attributes in the background, for a READ: the kernel
// may be evicting n, and waiting for the reply to that READ.
func (m *Mount) expireAttrLater(n *node) {
	m.notifications.Go(func() { m.expireAttr(n) })
}

// expireName makes the kernel look up a name in dir again before using it. No
// request may wait for expireName: the kernel itself waits for the requests about
// dir that are in flight. Not even SIGKILL ends that wait, and a killed process
// that waits keeps the mount, and with it these requests, until a forced unmount.
func (m *Mount) expireName(dir *node, name string) {
	_, _ = unix.Write(m.notifyFD, encodeEntryNote(dir.id, name, fuse.EXPIRE_ONLY)) // the kernel may not know the name
}

// encodeEntryNote encodes FUSE_NOTIFY_INVAL_ENTRY. go-fuse offers only forms that
// remove the name for processes that have it open or work below it.
func encodeEntryNote(dir uint64, name string, flags uint32) []byte {
	const headLen, noteLen = 16, 16
	size := headLen + noteLen + len(name) + 1
	b := make([]byte, 0, size)
	b = binary.NativeEndian.AppendUint32(b, uint32(size))
	b = binary.NativeEndian.AppendUint32(b, uint32(-fuse.NOTIFY_INVAL_ENTRY))
	b = binary.NativeEndian.AppendUint64(b, 0) // zero: not a reply to a request
	b = binary.NativeEndian.AppendUint64(b, dir)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
	b = binary.NativeEndian.AppendUint32(b, flags)
	return append(append(b, name...), 0)
}
