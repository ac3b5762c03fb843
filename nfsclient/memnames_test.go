package nfsclient

import (
	"context"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

func (m *memFS) enter(d *memNode, name string, id uint64) {
	m.cookie++
	d.names = append(d.names, memName{name, id, m.cookie})
	d.attr.Mtime = m.now()
}

// make creates an object, or returns the existing object with EEXIST.
func (m *memFS) make(dir vfs.Handle, name string, t vfs.Type, s *vfs.SetAttr) (*memNode, vfs.Made, error) {
	d, err := m.node(dir, vfs.TypeDir)
	if err != nil {
		return nil, vfs.Made{Dir: m.wcc(d)}, err
	}
	if i := d.find(name); i >= 0 {
		n := m.nodes[d.names[i].id]
		return n, vfs.Made{Handle: memHandle(n.attr.FileID), Attr: m.maybe(n), Dir: m.wcc(d)}, syscall.EEXIST
	}
	id := m.newNode(t)
	n := m.nodes[id]
	n.parent = d.attr.FileID
	n.set(s)
	m.enter(d, name, id)
	return n, vfs.Made{Handle: memHandle(id), Attr: m.maybe(n), Dir: m.wcc(d)}, nil
}

func (m *memFS) Create(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.make(dir, name, vfs.TypeReg, &how.Attr)
	switch {
	case err == nil:
		n.verf = how.Verifier
	case err != syscall.EEXIST:
	case how.Mode == vfs.Unchecked, how.Mode == vfs.Exclusive && n.verf == how.Verifier:
		err = nil
	}
	return made, err
}

func (m *memFS) Mkdir(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, made, err := m.make(dir, name, vfs.TypeDir, &s)
	return made, err
}

func (m *memFS) Symlink(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name, target string, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.make(dir, name, vfs.TypeLnk, &s)
	if err == nil {
		n.target = target
	}
	return made, err
}

func (m *memFS) Mknod(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, d vfs.Dev, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.make(dir, name, t, &s)
	if err == nil {
		n.attr.Rdev = d
		made.Attr = m.maybe(n)
	}
	return made, err
}

func (m *memFS) unlink(dir vfs.Handle, name string, isDir bool) (vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.node(dir, vfs.TypeDir)
	if err != nil {
		return m.wcc(d), err
	}
	i := d.find(name)
	if i < 0 {
		return m.wcc(d), syscall.ENOENT
	}
	n := m.nodes[d.names[i].id]
	switch {
	case isDir && n.attr.Type != vfs.TypeDir:
		return m.wcc(d), syscall.ENOTDIR
	case !isDir && n.attr.Type == vfs.TypeDir:
		return m.wcc(d), syscall.EISDIR
	case len(n.names) > 0:
		return m.wcc(d), syscall.ENOTEMPTY
	}
	m.drop(d, i)
	return m.wcc(d), nil
}

func (m *memFS) drop(d *memNode, i int) {
	n := m.nodes[d.names[i].id]
	if n.attr.Nlink--; n.attr.Nlink == 0 {
		delete(m.nodes, n.attr.FileID)
	}
	d.names = slices.Delete(d.names, i, i+1)
	d.attr.Mtime = m.now()
}

func (m *memFS) Remove(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return m.unlink(dir, name, false)
}

func (m *memFS) Rmdir(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return m.unlink(dir, name, true)
}

func (m *memFS) Rename(_ context.Context, _ *vfs.Cred, from vfs.Handle, fromName string, to vfs.Handle, toName string) (fromDir, toDir vfs.WCC, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.node(from, vfs.TypeDir)
	if err != nil {
		return fromDir, toDir, err
	}
	t, err := m.node(to, vfs.TypeDir)
	if err != nil {
		return m.wcc(f), toDir, err
	}
	i := f.find(fromName)
	if i < 0 {
		return m.wcc(f), m.wcc(t), syscall.ENOENT
	}
	id := f.names[i].id
	f.names = slices.Delete(f.names, i, i+1)
	if j := t.find(toName); j >= 0 {
		m.drop(t, j)
	}
	m.enter(t, toName, id)
	return m.wcc(f), m.wcc(t), nil
}

func (m *memFS) Link(_ context.Context, _ *vfs.Cred, h, dir vfs.Handle, name string) (vfs.MaybeAttr, vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.node(h)
	if err != nil {
		return m.maybe(n), vfs.WCC{}, err
	}
	d, err := m.node(dir, vfs.TypeDir)
	if err == nil && d.find(name) >= 0 {
		err = syscall.EEXIST
	}
	if err == nil {
		m.enter(d, name, n.attr.FileID)
		n.attr.Nlink++
	}
	return m.maybe(n), m.wcc(d), err
}

// ReadDir uses as verifier the directory's mtime at the start of the listing:
// any change makes the cookies invalid.
func (m *memFS) ReadDir(_ context.Context, _ *vfs.Cred, dir vfs.Handle, cookie, verf uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.node(dir, vfs.TypeDir)
	if err != nil {
		return m.maybe(d), 0, false, err
	}
	now := uint64(d.attr.Mtime.Sec)
	if cookie != 0 && verf != now {
		return m.maybe(d), 0, false, vfs.ErrBadCookie
	}
	all := append([]memName{{".", d.attr.FileID, 1}, {"..", d.parent, 2}}, d.names...)
	for _, e := range all {
		if e.no <= cookie {
			continue
		}
		out := vfs.Entry{FileID: e.id, Name: []byte(e.name), Cookie: e.no}
		if plus && !m.bare {
			out.HasHandle, out.Handle, out.Attr = true, memHandle(e.id), m.maybe(m.nodes[e.id])
		}
		if !fn(&out) {
			return m.maybe(d), now, false, nil
		}
	}
	return m.maybe(d), now, true, nil
}
