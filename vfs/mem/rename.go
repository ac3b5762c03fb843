package mem

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Rename moves a name, and replaces an existing object.
func (f *FS) Rename(_ context.Context, c *vfs.Cred, from vfs.Handle, fromName string, to vfs.Handle, toName string) (fromDir, toDir vfs.WCC, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fd, err := f.dirOf(from)
	fromDir = fd.unchangedWCC()
	if err != nil {
		return fromDir, toDir, err
	}
	td, err := f.dirOf(to)
	toDir = td.unchangedWCC()
	if err == nil {
		err = f.renameNode(c, fd, fromName, td, toName)
	}
	if err == nil {
		fromDir.After, toDir.After = fd.maybeAttr(), td.maybeAttr()
	}
	return fromDir, toDir, err
}

func (f *FS) renameNode(c *vfs.Cred, fd *node, fromName string, td *node, toName string) error {
	if vfs.IsDots(fromName) || vfs.IsDots(toName) {
		return syscall.EINVAL // RFC 1813, Section 3.3.14
	}
	n, err := fd.lookupName(c, fromName)
	if err != nil {
		return err
	}
	there, err := td.lookupName(c, toName)
	if err != nil && err != syscall.ENOENT {
		return err
	}
	if there == n {
		return nil // two names for one object, or one
	}
	if err := f.mayRename(c, fd, n, td, there); err != nil {
		return err
	}
	if there != nil {
		f.dropName(td, toName)
	}
	fd.names.remove(fromName)
	td.names.add(toName, n)
	if n.attr.Type == vfs.TypeDir {
		fd.attr.Nlink--
		td.attr.Nlink++
		n.parent = td
	}
	n.attr.Ctime = f.nextTime()
	f.noteModified(fd)
	if td != fd {
		f.noteModified(td)
	}
	return nil
}

// mayRename returns an error if c may not move n from fd to td, replacing
// there.
func (f *FS) mayRename(c *vfs.Cred, fd, n, td, there *node) error {
	if err := fd.mayLose(c, n); err != nil {
		return err
	}
	if err := td.checkRights(c, write|execute); err != nil {
		return err
	}
	isDir := n.attr.Type == vfs.TypeDir
	if isDir && td.isBelow(n) {
		return syscall.EINVAL
	}
	if isDir && fd != td {
		if err := n.checkRights(c, write); err != nil { // its ".." changes
			return err
		}
	}
	if there == nil {
		return nil
	}
	overDir := there.attr.Type == vfs.TypeDir
	switch {
	case isDir && !overDir:
		return syscall.ENOTDIR
	case !isDir && overDir:
		return syscall.EISDIR
	case overDir && there.names.len() > 0:
		return syscall.ENOTEMPTY
	}
	return td.mayTake(c, there)
}

// isBelow reports whether n is d or lies below d.
func (n *node) isBelow(d *node) bool {
	for n != d {
		if n.parent == n {
			return false
		}
		n = n.parent
	}
	return true
}
