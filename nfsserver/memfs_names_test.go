package nfsserver

import (
	"context"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// addName adds a name to d.
func (m *memFS) addName(d *memNode, name string, id uint64) {
	m.cookie++
	d.names = append(d.names, memName{name, id, m.cookie})
	d.attr.Size++
}

// makeObject makes an object, or returns the error for the name.
func (m *memFS) makeObject(c *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, s vfs.SetAttr) (*memNode, vfs.Made, error) {
	d, err := m.findDir(c, dir)
	if err != nil {
		return nil, vfs.Made{Dir: vfs.WCC{After: d.maybeAttr()}}, err
	}
	if d.findName(name) >= 0 {
		return nil, vfs.Made{Dir: vfs.WCC{Before: d.preAttr(), After: d.maybeAttr()}}, syscall.EEXIST
	}
	pre := d.preAttr()
	id := m.newNode(t, 0o644)
	n := m.nodes[id]
	n.parent = d.attr.FileID
	n.setAttr(&s)
	m.addName(d, name, id)
	return n, vfs.Made{Handle: memHandle(id), Attr: n.maybeAttr(), Dir: m.wccAfter(d, pre)}, nil
}

func (m *memFS) Create(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.makeObject(c, dir, name, vfs.TypeReg, how.Attr)
	if err == nil {
		n.verf = how.Verifier
	}
	if err != syscall.EEXIST || how.Mode == vfs.Guarded {
		return made, err
	}
	d, _ := m.findDir(c, dir)
	id := d.names[d.findName(name)].id
	if n = m.nodes[id]; how.Mode == vfs.Exclusive && n.verf != how.Verifier {
		return made, err
	}
	return vfs.Made{Handle: memHandle(id), Attr: n.maybeAttr(), Dir: made.Dir}, nil
}

func (m *memFS) Mkdir(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, made, err := m.makeObject(c, dir, name, vfs.TypeDir, s)
	return made, err
}

func (m *memFS) Symlink(_ context.Context, c *vfs.Cred, dir vfs.Handle, name, target string, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.makeObject(c, dir, name, vfs.TypeLnk, s)
	if err == nil {
		n.target = target
	}
	return made, err
}

func (m *memFS) Mknod(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, d vfs.Dev, s vfs.SetAttr) (vfs.Made, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, made, err := m.makeObject(c, dir, name, t, s)
	if err == nil {
		n.attr.Rdev = d
		made.Attr = n.maybeAttr()
	}
	return made, err
}

func (m *memFS) removeName(c *vfs.Cred, dir vfs.Handle, name string, isDir bool) (vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.findDir(c, dir)
	if err != nil {
		return vfs.WCC{After: d.maybeAttr()}, err
	}
	pre := d.preAttr()
	i := d.findName(name)
	if i < 0 {
		return vfs.WCC{Before: pre, After: d.maybeAttr()}, syscall.ENOENT
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
		return vfs.WCC{Before: pre, After: d.maybeAttr()}, err
	}
	m.dropName(d, i)
	return m.wccAfter(d, pre), nil
}

func (m *memFS) dropName(d *memNode, i int) {
	n := m.nodes[d.names[i].id]
	if n.attr.Nlink--; n.attr.Nlink == 0 {
		delete(m.nodes, n.attr.FileID)
	}
	d.names = slices.Delete(d.names, i, i+1)
}

func (m *memFS) Remove(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return m.removeName(c, dir, name, false)
}

func (m *memFS) Rmdir(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return m.removeName(c, dir, name, true)
}

func (m *memFS) Rename(_ context.Context, c *vfs.Cred, from vfs.Handle, fromName string, to vfs.Handle, toName string) (fromDir, toDir vfs.WCC, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.findDir(c, from)
	if err != nil {
		return fromDir, toDir, err
	}
	t, err := m.findDir(c, to)
	if err != nil {
		return vfs.WCC{After: f.maybeAttr()}, vfs.WCC{After: t.maybeAttr()}, err
	}
	fromPre, toPre := f.preAttr(), t.preAttr()
	i := f.findName(fromName)
	if i < 0 {
		return vfs.WCC{Before: fromPre, After: f.maybeAttr()}, vfs.WCC{Before: toPre, After: t.maybeAttr()}, syscall.ENOENT
	}
	id := f.names[i].id
	f.names = slices.Delete(f.names, i, i+1)
	if j := t.findName(toName); j >= 0 {
		m.dropName(t, j)
	}
	m.addName(t, toName, id)
	return m.wccAfter(f, fromPre), m.wccAfter(t, toPre), nil
}

func (m *memFS) Link(_ context.Context, c *vfs.Cred, h, dir vfs.Handle, name string) (vfs.MaybeAttr, vfs.WCC, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findFile(c, h)
	if err != nil {
		return n.maybeAttr(), vfs.WCC{}, err
	}
	d, err := m.findDir(c, dir)
	if err == nil && d.findName(name) >= 0 {
		err = syscall.EEXIST
	}
	if err != nil {
		return n.maybeAttr(), vfs.WCC{Before: d.preAttr(), After: d.maybeAttr()}, err
	}
	pre := d.preAttr()
	m.addName(d, name, n.attr.FileID)
	n.attr.Nlink++
	return n.maybeAttr(), m.wccAfter(d, pre), nil
}

// memListVerf is ReadDir's verifier.
const memListVerf = 0xfeed

func (m *memFS) ReadDir(_ context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verf uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.findDir(c, dir)
	if err != nil {
		return d.maybeAttr(), 0, false, err
	}
	if cookie != 0 && verf != memListVerf || cookie == 0 && verf != 0 {
		return d.maybeAttr(), 0, false, vfs.ErrBadCookie
	}
	all := append([]memName{{".", d.attr.FileID, 1}, {"..", d.parent, 2}}, d.names...)
	for _, e := range all {
		if e.no <= cookie {
			continue
		}
		out := vfs.Entry{FileID: e.id, Name: []byte(e.name), Cookie: e.no}
		if plus {
			out.HasHandle, out.Handle, out.Attr = true, memHandle(e.id), m.nodes[e.id].maybeAttr()
		}
		if !fn(&out) {
			return d.maybeAttr(), memListVerf, false, nil
		}
	}
	return d.maybeAttr(), memListVerf, true, nil
}
