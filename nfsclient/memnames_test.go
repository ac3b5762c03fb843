package nfsclient

import (
	"context"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

func (m *memFS) addName(d *memNode, name string, id uint64) {
	m.cookie++
	d.names = append(d.names, memName{name, id, m.cookie})
	d.attr.Mtime = m.nextTime()
}

// makeNode creates an object, or returns the existing object with EEXIST.
func (m *memFS) makeNode(dir vfs.Handle, name string, t vfs.Type, s *vfs.SetAttr) (*memNode, vfs.Made, error) {
	d, err := m.nodeOf(dir, vfs.TypeDir)
	if err != nil {
		return nil, vfs.Made{Dir: m.wccOf(d)}, err
	}
	if i := d.findName(name); i >= 0 {
		n := m.nodes[d.names[i].id]
		return n, vfs.Made{Handle: memHandle(n.attr.FileID), Attr: m.maybeAttr(n), Dir: m.wccOf(d)}, syscall.EEXIST
	}
	id := m.newNode(t)
	n := m.nodes[id]
	n.parent = d.attr.FileID
	n.setAttr(s)
	m.addName(d, name, id)
	return n, vfs.Made{Handle: memHandle(id), Attr: m.maybeAttr(n), Dir: m.wccOf(d)}, nil
}

func (m *memFS) Create(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.makeNode(dir, name, vfs.TypeReg, &how.Attr)
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
	_, made, err := m.makeNode(dir, name, vfs.TypeDir, &s)
	return made, err
}

func (m *memFS) Symlink(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name, target string, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.makeNode(dir, name, vfs.TypeLnk, &s)
	if err == nil {
		n.target = target
	}
	return made, err
}

func (m *memFS) Mknod(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, d vfs.Dev, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.makeNode(dir, name, t, &s)
	if err == nil {
		n.attr.Rdev = d
		made.Attr = m.maybeAttr(n)
	}
	return made, err
}

func (m *memFS) removeName(dir vfs.Handle, name string, isDir bool) (vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.nodeOf(dir, vfs.TypeDir)
	if err != nil {
		return m.wccOf(d), err
	}
	i := d.findName(name)
	if i < 0 {
		return m.wccOf(d), syscall.ENOENT
	}
	n := m.nodes[d.names[i].id]
	switch {
	case isDir && n.attr.Type != vfs.TypeDir:
		return m.wccOf(d), syscall.ENOTDIR
	case !isDir && n.attr.Type == vfs.TypeDir:
		return m.wccOf(d), syscall.EISDIR
	case len(n.names) > 0:
		return m.wccOf(d), syscall.ENOTEMPTY
	}
	m.dropName(d, i)
	return m.wccOf(d), nil
}

func (m *memFS) dropName(d *memNode, i int) {
	n := m.nodes[d.names[i].id]
	if n.attr.Nlink--; n.attr.Nlink == 0 {
		delete(m.nodes, n.attr.FileID)
	}
	d.names = slices.Delete(d.names, i, i+1)
	d.attr.Mtime = m.nextTime()
}

func (m *memFS) Remove(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return m.removeName(dir, name, false)
}

func (m *memFS) Rmdir(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return m.removeName(dir, name, true)
}

func (m *memFS) Rename(_ context.Context, _ *vfs.Cred, from vfs.Handle, fromName string, to vfs.Handle, toName string) (fromDir, toDir vfs.WCC, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.nodeOf(from, vfs.TypeDir)
	if err != nil {
		return fromDir, toDir, err
	}
	t, err := m.nodeOf(to, vfs.TypeDir)
	if err != nil {
		return m.wccOf(f), toDir, err
	}
	i := f.findName(fromName)
	if i < 0 {
		return m.wccOf(f), m.wccOf(t), syscall.ENOENT
	}
	id := f.names[i].id
	f.names = slices.Delete(f.names, i, i+1)
	if j := t.findName(toName); j >= 0 {
		m.dropName(t, j)
	}
	m.addName(t, toName, id)
	return m.wccOf(f), m.wccOf(t), nil
}

func (m *memFS) Link(_ context.Context, _ *vfs.Cred, h, dir vfs.Handle, name string) (vfs.MaybeAttr, vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.nodeOf(h)
	if err != nil {
		return m.maybeAttr(n), vfs.WCC{}, err
	}
	d, err := m.nodeOf(dir, vfs.TypeDir)
	if err == nil && d.findName(name) >= 0 {
		err = syscall.EEXIST
	}
	if err == nil {
		m.addName(d, name, n.attr.FileID)
		n.attr.Nlink++
	}
	return m.maybeAttr(n), m.wccOf(d), err
}

// ReadDir uses as verifier the directory's mtime at the start of the listing:
// any change makes the cookies invalid.
func (m *memFS) ReadDir(_ context.Context, _ *vfs.Cred, dir vfs.Handle, cookie, verf uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.nodeOf(dir, vfs.TypeDir)
	if err != nil {
		return m.maybeAttr(d), 0, false, err
	}
	now := uint64(d.attr.Mtime.Sec)
	if cookie != 0 && verf != now {
		return m.maybeAttr(d), 0, false, vfs.ErrBadCookie
	}
	all := append([]memName{{".", d.attr.FileID, 1}, {"..", d.parent, 2}}, d.names...)
	for _, e := range all {
		if e.no <= cookie {
			continue
		}
		out := vfs.Entry{FileID: e.id, Name: []byte(e.name), Cookie: e.no}
		if plus && !m.bare {
			out.HasHandle, out.Handle, out.Attr = true, memHandle(e.id), m.maybeAttr(m.nodes[e.id])
		}
		if !fn(&out) {
			return m.maybeAttr(d), now, false, nil
		}
	}
	return m.maybeAttr(d), now, true, nil
}
