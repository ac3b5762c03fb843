package fusefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A sillyName is a hidden name of an open file. NFSv3 has no open files: an object
// without a name is gone. An open file whose name is removed is therefore renamed,
// and the new name is removed when the file is closed ("silly rename"). A crash
// leaves the hidden name, as with Linux, and in Linux's format: servers run jobs
// that look for such names.
type sillyName struct {
	dir  *node
	name string
	c    *nfsclient.Client // client of the caller that removed the real name
}

// hideName renames n, which is at name in dir, to a hidden name.
func (m *Mount) hideName(o *op, dir *node, name string, n *node) fuse.Status {
	if n.isHiddenAt(dir, name) {
		return fuse.EBUSY // the name is removed when the file is closed
	}
	newName, err := m.hiddenName(o, dir, n)
	if err != nil {
		return m.errorStatus(err)
	}
	if err := m.renameObject(o, o.callerClient(), dir, name, dir, newName); err != nil {
		return m.errorStatus(err)
	}
	m.table.removeName(dir, name)
	dir.addHiddenNames(+1)
	n.mu.Lock()
	n.sillyNames = append(n.sillyNames, sillyName{dir: dir, name: newName, c: o.callerClient()})
	n.mu.Unlock()
	m.invalidateAttr(n)
	if !m.table.isOpen(n) { // closed in the meantime
		m.removeHidden(o, n)
	}
	return fuse.OK
}

// hiddenName finds an unused name in dir, because RENAME would replace an
// existing object.
func (m *Mount) hiddenName(o *op, dir, n *node) (string, error) {
	n.mu.Lock()
	id := n.attr.FileID
	n.mu.Unlock()
	for range sillyTries {
		name := fmt.Sprintf(".nfs%016x%08x", id, m.sillyCount.Add(1))
		_, err := o.callerClient().Lookup(o, dir.fh, name)
		if errors.Is(err, nfs3.ErrNoEnt) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%d names of removed open files are taken: %w", sillyTries, syscall.EBUSY)
}

// isHiddenAt reports whether n has a hidden name at name.
func (n *node) isHiddenAt(dir *node, name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.sillyNames, func(h sillyName) bool { return h.dir == dir && h.name == name })
}

// restoreName restores the name that hideName removed last from n.
func (m *Mount) restoreName(o *op, dir *node, name string, n *node) {
	n.mu.Lock()
	if len(n.sillyNames) == 0 {
		n.mu.Unlock()
		return // closed and removed in the meantime
	}
	h := n.sillyNames[len(n.sillyNames)-1]
	n.sillyNames = n.sillyNames[:len(n.sillyNames)-1]
	n.mu.Unlock()
	if err := m.renameObject(&o.calls, h.c, dir, h.name, dir, name); err != nil { // o may be canceled
		m.logFailure(err)
	}
	dir.addHiddenNames(-1)
}

// removeHidden removes n's hidden names.
func (m *Mount) removeHidden(ctx context.Context, n *node) {
	n.mu.Lock()
	list := n.sillyNames
	n.sillyNames = nil
	n.mu.Unlock()
	for _, h := range list {
		began := m.nextTick()
		wcc, err := h.c.Remove(ctx, h.dir.fh, h.name)
		m.learnAfterChange(h.dir, began, &wcc.After)
		markIfUncertain(err, h.dir)
		if err != nil && !errors.Is(err, nfs3.ErrNoEnt) {
			m.logFailure(fmt.Errorf("remove %s, the name of a removed open file: %w", h.name, err))
		}
		h.dir.addHiddenNames(-1)
	}
	if len(list) > 0 { // other links may remain
		m.invalidateAttr(n)
		m.expireAttrLater(n)
	}
}

// renameObject sends a RENAME, and stores the directories' attributes.
func (m *Mount) renameObject(ctx context.Context, c *nfsclient.Client, from *node, name string, to *node, newName string) error {
	began := m.nextTick()
	res, err := c.Rename(ctx, &nfs3.RenameArgs{
		From: nfs3.DirOpArgs{Dir: from.fh, Name: []byte(name)},
		To:   nfs3.DirOpArgs{Dir: to.fh, Name: []byte(newName)},
	})
	m.learnAfterChange(from, began, &res.FromDir.After)
	if to != from {
		m.learnAfterChange(to, began, &res.ToDir.After)
	}
	to.forgetAbsent(newName)
	markIfUncertain(err, from, to)
	return err
}
