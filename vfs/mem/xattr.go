package mem

import (
	"context"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Xattrs = (*FS)(nil)

// HasXattrs returns true.
func (f *FS) HasXattrs() bool { return true }

// xattrNode finds an object that c has a right to.
func (f *FS) xattrNode(c *vfs.Cred, h vfs.Handle, right uint32, name string) (*node, error) {
	n, err := f.nodeOf(h)
	switch {
	case err != nil:
		return nil, err
	case n.attr.Type != vfs.TypeReg && n.attr.Type != vfs.TypeDir:
		return nil, syscall.EPERM
	case name == "" || strings.IndexByte(name, 0) >= 0:
		return nil, syscall.EINVAL
	case len(name) > vfs.MaxXattrName:
		return nil, syscall.ERANGE
	}
	return n, n.checkRights(c, right)
}

// GetXattr implements vfs.Xattrs.
func (f *FS) GetXattr(_ context.Context, c *vfs.Cred, h vfs.Handle, name string) ([]byte, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.xattrNode(c, h, read, name)
	if err != nil {
		return nil, err
	}
	value, ok := n.xattrs[name]
	if !ok {
		return nil, syscall.ENODATA
	}
	return []byte(value), nil
}

// ListXattrs implements vfs.Xattrs.
func (f *FS) ListXattrs(_ context.Context, _ *vfs.Cred, h vfs.Handle) ([]string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.nodeOf(h)
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Keys(n.xattrs)), nil
}

// SetXattr implements vfs.Xattrs. An attribute counts against the size.
func (f *FS) SetXattr(_ context.Context, c *vfs.Cred, h vfs.Handle, name string, value []byte, how vfs.XattrHow) (vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.xattrNode(c, h, write, name)
	if err != nil {
		return vfs.WCC{}, err
	}
	w := n.unchangedWCC()
	old, exists := n.xattrs[name]
	switch {
	case exists && how == vfs.XattrCreate:
		return w, syscall.EEXIST
	case !exists && how == vfs.XattrReplace:
		return w, syscall.ENODATA
	case len(value) > vfs.MaxXattrValue:
		return w, syscall.E2BIG
	}
	cost := xattrCost(name, len(value))
	if exists {
		cost = int64(len(value) - len(old))
	}
	if err := f.chargeBytes(cost); err != nil {
		return w, err
	}
	if n.xattrs == nil {
		n.xattrs = make(map[string]string)
	}
	n.xattrs[name] = string(value)
	n.attr.Ctime = f.nextTime()
	w.After = n.maybeAttr()
	return w, nil
}

// RemoveXattr implements vfs.Xattrs.
func (f *FS) RemoveXattr(_ context.Context, c *vfs.Cred, h vfs.Handle, name string) (vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.xattrNode(c, h, write, name)
	if err != nil {
		return vfs.WCC{}, err
	}
	w := n.unchangedWCC()
	value, ok := n.xattrs[name]
	if !ok {
		return w, syscall.ENODATA
	}
	f.used -= xattrCost(name, len(value))
	delete(n.xattrs, name)
	n.attr.Ctime = f.nextTime()
	w.After = n.maybeAttr()
	return w, nil
}

// freeXattrs releases what n's attributes count against the size.
func (f *FS) freeXattrs(n *node) {
	for name, value := range n.xattrs {
		f.used -= xattrCost(name, len(value))
	}
}

// xattrCost returns the number of bytes that an attribute counts against the size.
func xattrCost(name string, value int) int64 { return int64(len(name) + value + xattrFixed) }
