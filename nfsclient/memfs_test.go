package nfsclient

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A memFS is a file system in memory, for tests. A restart loses all data that
// are not stable.
type memFS struct {
	mu     sync.Mutex
	nodes  map[uint64]*memNode
	next   uint64
	cookie uint64
	clock  int64
	verf   uint64 // the write verifier

	bare   bool // only GetAttr returns attributes
	always bool // every write is stable, even if UNSTABLE
}

type memNode struct {
	attr         vfs.Attr
	data, stable []byte
	target       string
	names        []memName
	parent       uint64
	verf         uint64 // exclusive create verifier
}

type memName struct {
	name   string
	id, no uint64 // no is the cookie
}

const memRoot = 1

func newMemFS() *memFS {
	m := &memFS{nodes: make(map[uint64]*memNode), next: memRoot, cookie: 2, verf: 0x1122334455667788}
	id := m.newNode(vfs.TypeDir)
	m.nodes[id].parent = id
	return m
}

func (m *memFS) nextTime() vfs.Time {
	m.clock++
	return vfs.Time{Sec: 1_000_000 + m.clock}
}

func (m *memFS) newNode(t vfs.Type) uint64 {
	id := m.next
	m.next++
	now := m.nextTime()
	m.nodes[id] = &memNode{attr: vfs.Attr{
		Type: t, Mode: 0o644, Nlink: 1, FSID: 7, FileID: id, Atime: now, Mtime: now, Ctime: now,
	}}
	return id
}

// loseUnstable loses unstable data, and changes the write verifier.
func (m *memFS) loseUnstable() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.verf++
	for _, n := range m.nodes {
		n.data = slices.Clone(n.stable)
		n.attr.Size = uint64(len(n.data))
	}
}

func memHandle(id uint64) vfs.Handle {
	h, _ := vfs.NewHandle(binary.BigEndian.AppendUint64(nil, id))
	return h
}

// nodeOf finds an object with one of the given types, or with any type.
func (m *memFS) nodeOf(h vfs.Handle, types ...vfs.Type) (*memNode, error) {
	b := h.AppendTo(nil)
	if len(b) != 8 {
		return nil, vfs.ErrBadHandle
	}
	n := m.nodes[binary.BigEndian.Uint64(b)]
	switch {
	case n == nil:
		return nil, syscall.ESTALE
	case len(types) == 0 || slices.Contains(types, n.attr.Type):
		return n, nil
	case types[0] == vfs.TypeDir:
		return nil, syscall.ENOTDIR
	case n.attr.Type == vfs.TypeDir && types[0] == vfs.TypeReg:
		return nil, syscall.EISDIR
	}
	return nil, syscall.EINVAL
}

func (n *memNode) findName(name string) int {
	return slices.IndexFunc(n.names, func(e memName) bool { return e.name == name })
}

func (m *memFS) maybeAttr(n *memNode) vfs.MaybeAttr {
	return vfs.MaybeAttr{OK: !m.bare && n != nil, Attr: attrOf(n)}
}

func attrOf(n *memNode) vfs.Attr {
	if n == nil {
		return vfs.Attr{}
	}
	return n.attr
}

func (m *memFS) wccOf(n *memNode) vfs.WCC { return vfs.WCC{After: m.maybeAttr(n)} }

func (m *memFS) Root() vfs.Handle { return memHandle(memRoot) }

func (m *memFS) GetAttr(_ context.Context, _ *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.nodeOf(h)
	return attrOf(n), err
}

func (m *memFS) SetAttr(_ context.Context, _ *vfs.Cred, h vfs.Handle, s vfs.SetAttr, guard *vfs.Time) (vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.nodeOf(h)
	if err == nil && guard != nil && *guard != n.attr.Ctime {
		err = vfs.ErrNotSync
	}
	if err == nil {
		n.setAttr(&s)
		n.attr.Ctime = m.nextTime()
	}
	return m.wccOf(n), err
}

func (n *memNode) setAttr(s *vfs.SetAttr) {
	for _, p := range []struct{ to, from *uint32 }{{&n.attr.Mode, s.Mode}, {&n.attr.UID, s.UID}, {&n.attr.GID, s.GID}} {
		if p.from != nil {
			*p.to = *p.from
		}
	}
	if s.Size != nil {
		n.attr.Size = *s.Size
		n.data, n.stable = resizeBytes(n.data, int(*s.Size)), resizeBytes(n.stable, int(*s.Size))
	}
	if s.MtimeHow == vfs.SetToClient {
		n.attr.Mtime = s.Mtime
	}
}

func resizeBytes(p []byte, n int) []byte {
	return append(p[:min(len(p), n)], make([]byte, max(0, n-len(p)))...)
}

func (m *memFS) Lookup(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string) (h vfs.Handle, obj, dirAttr vfs.MaybeAttr, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.nodeOf(dir, vfs.TypeDir)
	if err != nil {
		return h, obj, m.maybeAttr(d), err
	}
	i := d.findName(name)
	if i < 0 {
		return h, obj, m.maybeAttr(d), syscall.ENOENT
	}
	id := d.names[i].id
	return memHandle(id), m.maybeAttr(m.nodes[id]), m.maybeAttr(d), nil
}

func (m *memFS) Access(_ context.Context, _ *vfs.Cred, h vfs.Handle, mask uint32) (uint32, vfs.MaybeAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.nodeOf(h)
	return mask &^ vfs.AccessDelete, m.maybeAttr(n), err
}

func (m *memFS) ReadLink(_ context.Context, _ *vfs.Cred, h vfs.Handle) (string, vfs.MaybeAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.nodeOf(h, vfs.TypeLnk)
	if err != nil {
		return "", m.maybeAttr(n), err
	}
	return n.target, m.maybeAttr(n), nil
}

func (m *memFS) Read(_ context.Context, _ *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.nodeOf(h, vfs.TypeReg)
	if err != nil {
		return 0, false, m.maybeAttr(n), err
	}
	size := uint64(len(n.data))
	count := copy(p, n.data[min(off, size):])
	return count, off+uint64(count) >= size, m.maybeAttr(n), nil
}

func (m *memFS) Write(_ context.Context, _ *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.nodeOf(h, vfs.TypeReg)
	if err != nil {
		return 0, 0, m.wccOf(n), err
	}
	if m.always {
		how = vfs.FileSync
	}
	n.data = putAt(n.data, p, int(off))
	if how != vfs.Unstable {
		n.stable = putAt(n.stable, p, int(off))
	}
	n.attr.Size = uint64(len(n.data))
	return len(p), how, m.wccOf(n), nil
}

func putAt(to, p []byte, off int) []byte {
	to = resizeBytes(to, max(len(to), off+len(p)))
	copy(to[off:], p)
	return to
}

func (m *memFS) Commit(_ context.Context, _ *vfs.Cred, h vfs.Handle, off uint64, count uint32) (vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.nodeOf(h, vfs.TypeReg)
	if err == nil {
		from := min(int(off), len(n.data))
		to := len(n.data)
		if count > 0 {
			to = min(to, from+int(count))
		}
		n.stable = putAt(n.stable, n.data[from:to], from)
	}
	return m.wccOf(n), err
}

func (m *memFS) WriteVerifier() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.verf
}

func (m *memFS) StatFS(_ context.Context, _ *vfs.Cred, h vfs.Handle) (vfs.FSStat, vfs.MaybeAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.nodeOf(h)
	return vfs.FSStat{TotalBytes: 6, FreeBytes: 5, AvailBytes: 4, TotalFiles: 3, FreeFiles: 2, AvailFiles: 1}, m.maybeAttr(n), err
}

func (m *memFS) PathConf(_ context.Context, _ *vfs.Cred, h vfs.Handle) (vfs.PathConf, vfs.MaybeAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.nodeOf(h)
	return vfs.PathConf{LinkMax: 32000, NameMax: 255, NoTrunc: true}, m.maybeAttr(n), err
}

func (m *memFS) Close() error { return nil }
