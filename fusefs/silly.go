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

// A sillyName is a hidden name of an open file. NFS knows no open files: an
// object without a name is gone. An open file whose name is removed is
// therefore renamed, and the new name is removed when the file is closed
// ("silly rename"). A crash leaves the hidden name, as with Linux, and under a
// name of Linux's form: servers run jobs that look for such names.
type sillyName struct {
	dir  *node
	name string
	c    *nfsclient.Client // of the caller that removed the real name
}

// hide renames n, which is at name in dir, to a hidden name.
func (m *Mount) hide(o *op, dir *node, name string, n *node) fuse.Status {
	if n.hiddenAt(dir, name) {
		return fuse.EBUSY // the name goes when the file is closed
	}
	newName, err := m.hiddenName(o, dir, n)
	if err != nil {
		return m.fail(err)
	}
	if err := m.rename(o, o.c(), dir, name, dir, newName); err != nil {
		return m.fail(err)
	}
	m.table.unname(dir, name)
	dir.veil(+1)
	n.mu.Lock()
	n.silly = append(n.silly, sillyName{dir: dir, name: newName, c: o.c()})
	n.mu.Unlock()
	m.suspect(n)
	if !m.table.isOpen(n) { // closed meanwhile
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
		_, err := o.c().Lookup(o, dir.fh, name)
		if errors.Is(err, nfs3.ErrNoEnt) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%d names of removed open files are taken: %w", sillyTries, syscall.EBUSY)
}

// hiddenAt reports whether a name is a hidden name of n.
func (n *node) hiddenAt(dir *node, name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.silly, func(h sillyName) bool { return h.dir == dir && h.name == name })
}

// unhide restores the name that hide took last from n.
func (m *Mount) unhide(o *op, dir *node, name string, n *node) {
	n.mu.Lock()
	if len(n.silly) == 0 {
		n.mu.Unlock()
		return // closed and removed meanwhile
	}
	h := n.silly[len(n.silly)-1]
	n.silly = n.silly[:len(n.silly)-1]
	n.mu.Unlock()
	if err := m.rename(&o.calls, h.c, dir, h.name, dir, name); err != nil { // o may have ended
		m.complain(err)
	}
	dir.veil(-1)
}

// removeHidden removes the hidden names of n.
func (m *Mount) removeHidden(ctx context.Context, n *node) {
	n.mu.Lock()
	list := n.silly
	n.silly = nil
	n.mu.Unlock()
	for _, h := range list {
		began := m.tick()
		wcc, err := h.c.Remove(ctx, h.dir.fh, h.name)
		m.learnOwn(h.dir, began, &wcc.After)
		unsure(err, h.dir)
		if err != nil && !errors.Is(err, nfs3.ErrNoEnt) {
			m.complain(fmt.Errorf("remove %s, the name of a removed open file: %w", h.name, err))
		}
		h.dir.veil(-1)
	}
	if len(list) > 0 { // other links may be left
		m.suspect(n)
		m.expireLater(n)
	}
}

// rename renames, and learns the attributes of the directories.
func (m *Mount) rename(ctx context.Context, c *nfsclient.Client, from *node, name string, to *node, newName string) error {
	began := m.tick()
	res, err := c.Rename(ctx, &nfs3.RenameArgs{
		From: nfs3.DirOpArgs{Dir: from.fh, Name: []byte(name)},
		To:   nfs3.DirOpArgs{Dir: to.fh, Name: []byte(newName)},
	})
	m.learnOwn(from, began, &res.FromDir.After)
	if to != from {
		m.learnOwn(to, began, &res.ToDir.After)
	}
	to.mayHave(newName)
	unsure(err, from, to)
	return err
}
