package mem

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Remove removes the name of an object that is not a directory.
func (f *FS) Remove(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return f.removeFrom(c, dir, name, func(n *node) error {
		if n.attr.Type == vfs.TypeDir {
			return syscall.EISDIR
		}
		return nil
	})
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return f.removeFrom(c, dir, name, func(n *node) error {
		switch {
		case n.attr.Type != vfs.TypeDir:
			return syscall.ENOTDIR
		case n.names.len() > 0:
			return syscall.ENOTEMPTY
		}
		return nil
	})
}

func (f *FS) removeFrom(c *vfs.Cred, dir vfs.Handle, name string, may func(n *node) error) (vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.dirOf(dir)
	w := d.unchangedWCC()
	if err == nil {
		err = f.removeName(c, d, name, may)
	}
	if err == nil {
		w.After = d.maybeAttr()
	}
	return w, err
}

func (f *FS) removeName(c *vfs.Cred, d *node, name string, may func(n *node) error) error {
	switch name {
	case ".":
		return syscall.EINVAL // RFC 1813, Section 3.3.13
	case "..":
		return syscall.EEXIST
	}
	n, err := d.lookupName(c, name)
	if err == nil {
		err = d.mayLose(c, n)
	}
	if err == nil {
		err = may(n)
	}
	if err != nil {
		return err
	}
	f.dropName(d, name)
	f.noteModified(d)
	return nil
}

// mayLose returns an error if c may not remove kid's name from the directory n.
func (n *node) mayLose(c *vfs.Cred, kid *node) error {
	if err := n.checkRights(c, write|execute); err != nil {
		return err
	}
	return n.mayTake(c, kid)
}

// dropName removes a name, and with the last name the object.
func (f *FS) dropName(d *node, name string) {
	n := d.names.get(name)
	d.names.remove(name)
	if n.attr.Type != vfs.TypeDir && n.attr.Nlink > 1 {
		f.used -= objectCost // the link's cost
	}
	f.noteUnlinked(n)
}
