package nfsserver

import (
	"context"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// enter adds a name to d.
func (m *memFS) enter(d *memNode, name string, id uint64) {
	m.cookie++
	d.names = append(d.names, memName{name, id, m.cookie})
	d.attr.Size++
}

// make makes an object, or returns the error for the name.
func (m *memFS) make(c *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, s vfs.SetAttr) (*memNode, vfs.Made, error) {
	d, err := m.dir(c, dir)
	if err != nil {
		return nil, vfs.Made{Dir: vfs.WCC{After: d.maybe()}}, err
	}
	if d.find(name) >= 0 {
		return nil, vfs.Made{Dir: vfs.WCC{Before: d.pre(), After: d.maybe()}}, syscall.EEXIST
	}
	pre := d.pre()
	id := m.newNode(t, 0o644)
	n := m.nodes[id]
	n.parent = d.attr.FileID
	n.set(&s)
	m.enter(d, name, id)
	return n, vfs.Made{Handle: memHandle(id), Attr: n.maybe(), Dir: m.touched(d, pre)}, nil
}

func (m *memFS) Create(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.make(c, dir, name, vfs.TypeReg, how.Attr)
	if err == nil {
		n.verf = how.Verifier
	}
	if err != syscall.EEXIST || how.Mode == vfs.Guarded {
		return made, err
	}
	d, _ := m.dir(c, dir)
	id := d.names[d.find(name)].id
	if n = m.nodes[id]; how.Mode == vfs.Exclusive && n.verf != how.Verifier {
		return made, err
	}
	return vfs.Made{Handle: memHandle(id), Attr: n.maybe(), Dir: made.Dir}, nil
}

func (m *memFS) Mkdir(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, made, err := m.make(c, dir, name, vfs.TypeDir, s)
	return made, err
}

func (m *memFS) Symlink(_ context.Context, c *vfs.Cred, dir vfs.Handle, name, target string, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.make(c, dir, name, vfs.TypeLnk, s)
	if err == nil {
		n.target = target
	}
	return made, err
}

func (m *memFS) Mknod(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, d vfs.Dev, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.make(c, dir, name, t, s)
	if err == nil {
		n.attr.Rdev = d
		made.Attr = n.maybe()
	}
	return made, err
}

func (m *memFS) unlink(c *vfs.Cred, dir vfs.Handle, name string, isDir bool) (vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.dir(c, dir)
	if err != nil {
		return vfs.WCC{After: d.maybe()}, err
	}
	pre := d.pre()
	i := d.find(name)
	if i < 0 {
		return vfs.WCC{Before: pre, After: d.maybe()}, syscall.ENOENT
	}
	n := m.nodes[d.names[i].id]
	switch {
	case isDir && n.attr.Type != vfs.TypeDir:
		err = syscall.ENOTDIR
	case !isDir && n.attr.Type == vfs.TypeDir:
		err = syscall.EISDIR
	case len(n.names) > 0:
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return vfs.WCC{Before: pre, After: d.maybe()}, err
	}
	m.drop(d, i)
	return m.touched(d, pre), nil
}

func (m *memFS) drop(d *memNode, i int) {
	n := m.nodes[d.names[i].id]
	if n.attr.Nlink--; n.attr.Nlink == 0 {
		delete(m.nodes, n.attr.FileID)
	}
	d.names = slices.Delete(d.names, i, i+1)
}

func (m *memFS) Remove(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return m.unlink(c, dir, name, false)
}

func (m *memFS) Rmdir(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return m.unlink(c, dir, name, true)
}

func (m *memFS) Rename(_ context.Context, c *vfs.Cred, from vfs.Handle, fromName string, to vfs.Handle, toName string) (fromDir, toDir vfs.WCC, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.dir(c, from)
	if err != nil {
		return fromDir, toDir, err
	}
	t, err := m.dir(c, to)
	if err != nil {
		return vfs.WCC{After: f.maybe()}, vfs.WCC{After: t.maybe()}, err
	}
	fromPre, toPre := f.pre(), t.pre()
	i := f.find(fromName)
	if i < 0 {
		return vfs.WCC{Before: fromPre, After: f.maybe()}, vfs.WCC{Before: toPre, After: t.maybe()}, syscall.ENOENT
	}
	id := f.names[i].id
	f.names = slices.Delete(f.names, i, i+1)
	if j := t.find(toName); j >= 0 {
		m.drop(t, j)
	}
	m.enter(t, toName, id)
	return m.touched(f, fromPre), m.touched(t, toPre), nil
}

func (m *memFS) Link(_ context.Context, c *vfs.Cred, h, dir vfs.Handle, name string) (vfs.MaybeAttr, vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.file(c, h)
	if err != nil {
		return n.maybe(), vfs.WCC{}, err
	}
	d, err := m.dir(c, dir)
	if err == nil && d.find(name) >= 0 {
		err = syscall.EEXIST
	}
	if err != nil {
		return n.maybe(), vfs.WCC{Before: d.pre(), After: d.maybe()}, err
	}
	pre := d.pre()
	m.enter(d, name, n.attr.FileID)
	n.attr.Nlink++
	return n.maybe(), m.touched(d, pre), nil
}

// memListVerf is the verifier of ReadDir.
const memListVerf = 0xfeed

func (m *memFS) ReadDir(_ context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verf uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.dir(c, dir)
	if err != nil {
		return d.maybe(), 0, false, err
	}
	if cookie != 0 && verf != memListVerf || cookie == 0 && verf != 0 {
		return d.maybe(), 0, false, vfs.ErrBadCookie
	}
	all := append([]memName{{".", d.attr.FileID, 1}, {"..", d.parent, 2}}, d.names...)
	for _, e := range all {
		if e.no <= cookie {
			continue
		}
		out := vfs.Entry{FileID: e.id, Name: []byte(e.name), Cookie: e.no}
		if plus {
			out.HasHandle, out.Handle, out.Attr = true, memHandle(e.id), m.nodes[e.id].maybe()
		}
		if !fn(&out) {
			return d.maybe(), memListVerf, false, nil
		}
	}
	return d.maybe(), memListVerf, true, nil
}
