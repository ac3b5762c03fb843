package nfsserver

import (
	"context"
	"encoding/binary"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A memFS is a file system in memory, for tests. It records the last caller and
// fails on demand.
type memFS struct {
	mu     sync.Mutex
	nodes  map[uint64]*memNode
	next   uint64
	cookie uint64
	clock  int64
	verf   uint64

	cred    vfs.Cred   // the last call's
	how     vfs.Stable // the last Write's
	commits int
	fail    error // for every call except Root and WriteVerifier
}

type memNode struct {
	attr   vfs.Attr
	data   []byte
	target string
	names  []memName
	verf   uint64
	parent uint64
}

type memName struct {
	name string
	id   uint64
	no   uint64 // its cookie
}

const memRoot = 1

func newMemFS() *memFS {
	m := &memFS{nodes: make(map[uint64]*memNode), next: memRoot, cookie: 2, verf: 0x1122334455667788}
	id := m.newNode(vfs.TypeDir, 0o755)
	m.nodes[id].parent = id
	m.next = 100
	return m
}

func (m *memFS) nextTime() vfs.Time {
	m.clock++
	return vfs.Time{Sec: 1_000_000 + m.clock, Nsec: uint32(m.clock)}
}

func (m *memFS) newNode(t vfs.Type, mode uint32) uint64 {
	id := m.next
	m.next++
	now := m.nextTime()
	m.nodes[id] = &memNode{attr: vfs.Attr{
		Type: t, Mode: mode, Nlink: 1, FSID: 7, FileID: id, Atime: now, Mtime: now, Ctime: now,
	}}
	return id
}

func memHandle(id uint64) vfs.Handle {
	h, _ := vfs.NewHandle(binary.BigEndian.AppendUint64(nil, id))
	return h
}

func (m *memFS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) { return h.AppendTo(b), nil }

// findNode finds an object. The handle's bytes stay on the stack.
func (m *memFS) findNode(c *vfs.Cred, h vfs.Handle) (*memNode, error) {
	m.cred = vfs.Cred{UID: c.UID, GID: c.GID, Groups: append(m.cred.Groups[:0], c.Groups...)}
	if m.fail != nil {
		return nil, m.fail
	}
	var b [vfs.MaxHandle]byte
	if len(h.AppendTo(b[:0])) != 8 {
		return nil, vfs.ErrBadHandle
	}
	n := m.nodes[binary.BigEndian.Uint64(b[:])]
	if n == nil {
		return nil, syscall.ESTALE
	}
	return n, nil
}

func (m *memFS) findDir(c *vfs.Cred, h vfs.Handle) (*memNode, error) {
	n, err := m.findNode(c, h)
	if err == nil && n.attr.Type != vfs.TypeDir {
		return n, syscall.ENOTDIR
	}
	return n, err
}

func (n *memNode) findName(name string) int {
	for i := range n.names {
		if n.names[i].name == name {
			return i
		}
	}
	return -1
}

func (n *memNode) maybeAttr() vfs.MaybeAttr {
	if n == nil {
		return vfs.MaybeAttr{}
	}
	return vfs.MaybeAttr{OK: true, Attr: n.attr}
}

func (n *memNode) preAttr() vfs.PreAttr {
	if n == nil {
		return vfs.PreAttr{}
	}
	return vfs.PreAttr{OK: true, Size: n.attr.Size, Mtime: n.attr.Mtime, Ctime: n.attr.Ctime}
}

// wccAfter returns a change's WCC data, with n's attributes after it.
func (m *memFS) wccAfter(n *memNode, pre vfs.PreAttr) vfs.WCC {
	n.attr.Mtime = m.nextTime()
	n.attr.Ctime = n.attr.Mtime
	return vfs.WCC{Before: pre, After: n.maybeAttr()}
}

func (m *memFS) Root() vfs.Handle { return memHandle(memRoot) }

func (m *memFS) GetAttr(_ context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findNode(c, h)
	if err != nil {
		return vfs.Attr{}, err
	}
	return n.attr, nil
}

func (m *memFS) SetAttr(_ context.Context, c *vfs.Cred, h vfs.Handle, s vfs.SetAttr, guard *vfs.Time) (vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findNode(c, h)
	switch {
	case err != nil:
		return vfs.WCC{}, err
	case guard != nil && *guard != n.attr.Ctime:
		return vfs.WCC{Before: n.preAttr(), After: n.maybeAttr()}, vfs.ErrNotSync
	}
	pre := n.preAttr()
	n.setAttr(&s)
	return m.wccAfter(n, pre), nil
}

func (n *memNode) setAttr(s *vfs.SetAttr) {
	for _, p := range []struct{ to, from *uint32 }{{&n.attr.Mode, s.Mode}, {&n.attr.UID, s.UID}, {&n.attr.GID, s.GID}} {
		if p.from != nil {
			*p.to = *p.from
		}
	}
	if s.Size != nil {
		n.attr.Size = *s.Size
	}
	if s.AtimeHow == vfs.SetToClient {
		n.attr.Atime = s.Atime
	}
}

func (m *memFS) Lookup(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string) (h vfs.Handle, obj, dirAttr vfs.MaybeAttr, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.findDir(c, dir)
	if err != nil {
		return h, obj, d.maybeAttr(), err
	}
	var id uint64
	switch i := d.findName(name); {
	case name == ".":
		id = d.attr.FileID
	case name == "..":
		id = d.parent
	case len(name) > 255:
		return h, obj, d.maybeAttr(), syscall.ENAMETOOLONG
	case i < 0:
		return h, obj, d.maybeAttr(), syscall.ENOENT
	default:
		id = d.names[i].id
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], id)
	h, _ = vfs.NewHandle(b[:])
	return h, m.nodes[id].maybeAttr(), d.maybeAttr(), nil
}

func (m *memFS) Access(_ context.Context, c *vfs.Cred, h vfs.Handle, mask uint32) (uint32, vfs.MaybeAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findNode(c, h)
	if err != nil {
		return 0, vfs.MaybeAttr{}, err
	}
	return mask, n.maybeAttr(), nil
}

func (m *memFS) ReadLink(_ context.Context, c *vfs.Cred, h vfs.Handle) (string, vfs.MaybeAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findNode(c, h)
	if err == nil && n.attr.Type != vfs.TypeLnk {
		err = syscall.EINVAL
	}
	if err != nil {
		return "", n.maybeAttr(), err
	}
	return n.target, n.maybeAttr(), nil
}

func (m *memFS) findFile(c *vfs.Cred, h vfs.Handle) (*memNode, error) {
	n, err := m.findNode(c, h)
	switch {
	case err != nil || n.attr.Type == vfs.TypeReg:
		return n, err
	case n.attr.Type == vfs.TypeDir:
		return n, syscall.EISDIR
	}
	return n, syscall.ELOOP
}

func (m *memFS) Read(_ context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findFile(c, h)
	if err != nil {
		return 0, false, n.maybeAttr(), err
	}
	size := uint64(len(n.data))
	count := copy(p, n.data[min(off, size):])
	return count, off+uint64(count) >= size, n.maybeAttr(), nil
}

// maxMemFile is the maximum size of a file in memory, in bytes.
const maxMemFile = 8 << 20

func (m *memFS) Write(_ context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findFile(c, h)
	if err != nil {
		return 0, 0, vfs.WCC{After: n.maybeAttr()}, err
	}
	pre := n.preAttr()
	end := off + uint64(len(p))
	if end > maxMemFile {
		return 0, 0, vfs.WCC{Before: pre, After: n.maybeAttr()}, syscall.EFBIG
	}
	if need := int(end) - len(n.data); need > 0 && len(p) > 0 {
		n.data = append(n.data, make([]byte, need)...)
	}
	m.how = how
	copy(n.data[min(off, uint64(len(n.data))):], p)
	n.attr.Size = uint64(len(n.data))
	return len(p), how, m.wccAfter(n, pre), nil
}

func (m *memFS) Commit(_ context.Context, c *vfs.Cred, h vfs.Handle, _ uint64, _ uint32) (vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findFile(c, h)
	m.commits++
	return vfs.WCC{Before: n.preAttr(), After: n.maybeAttr()}, err
}

func (m *memFS) WriteVerifier() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.verf
}

func (m *memFS) StatFS(_ context.Context, c *vfs.Cred, h vfs.Handle) (vfs.FSStat, vfs.MaybeAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findNode(c, h)
	return vfs.FSStat{TotalBytes: 6, FreeBytes: 5, AvailBytes: 4, TotalFiles: 3, FreeFiles: 2, AvailFiles: 1}, n.maybeAttr(), err
}

func (m *memFS) PathConf(_ context.Context, c *vfs.Cred, h vfs.Handle) (vfs.PathConf, vfs.MaybeAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findNode(c, h)
	return vfs.PathConf{LinkMax: 32000, NameMax: 255, NoTrunc: true, ChownRestricted: true, CasePreserving: true}, n.maybeAttr(), err
}

func (m *memFS) Close() error { return nil }
