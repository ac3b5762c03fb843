package mem

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// GetAttr returns an object's attributes.
func (f *FS) GetAttr(_ context.Context, _ *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.nodeOf(h)
	if err != nil {
		return vfs.Attr{}, err
	}
	return n.currentAttr(), nil
}

// Lookup finds a name in a directory.
func (f *FS) Lookup(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string) (h vfs.Handle, obj, dirAttr vfs.MaybeAttr, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	d, err := f.dirOf(dir)
	if err != nil {
		return h, obj, d.maybeAttr(), err
	}
	n, err := d.lookupName(c, name)
	if err != nil {
		return h, obj, d.maybeAttr(), err
	}
	return f.handleOf(n), n.maybeAttr(), d.maybeAttr(), nil
}

// lookupName returns the object named name in the directory n, if c may search n.
func (n *node) lookupName(c *vfs.Cred, name string) (*node, error) {
	if err := n.checkRights(c, execute); err != nil {
		return nil, err
	}
	switch name {
	case ".":
		return n, nil
	case "..":
		return n.parent, nil
	}
	if err := vfs.CheckName(name, maxName); err != nil {
		return nil, err
	}
	kid := n.names.get(name)
	if kid == nil {
		return nil, syscall.ENOENT
	}
	return kid, nil
}

// Access decides by the mode, without the owner's override.
func (f *FS) Access(_ context.Context, c *vfs.Cred, h vfs.Handle, mask uint32) (granted uint32, a vfs.MaybeAttr, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.nodeOf(h)
	if err != nil {
		return 0, a, err
	}
	have := n.rightsOf(c)
	if have&read != 0 {
		granted |= vfs.AccessRead
	}
	if n.attr.Type == vfs.TypeDir {
		if have&execute != 0 {
			granted |= vfs.AccessLookup
		}
		if have&(write|execute) == write|execute {
			granted |= vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete
		}
		return mask & granted, n.maybeAttr(), nil
	}
	if have&write != 0 {
		granted |= vfs.AccessModify | vfs.AccessExtend
	}
	if have&execute != 0 {
		granted |= vfs.AccessExecute
	}
	return mask & granted, n.maybeAttr(), nil
}

// ReadLink returns a symbolic link's target.
func (f *FS) ReadLink(_ context.Context, _ *vfs.Cred, h vfs.Handle) (string, vfs.MaybeAttr, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.nodeOf(h)
	if err == nil && n.attr.Type != vfs.TypeLnk {
		err = syscall.EINVAL
	}
	if err != nil {
		return "", n.maybeAttr(), err
	}
	return n.target, n.maybeAttr(), nil
}

// StatFS returns the remaining space.
func (f *FS) StatFS(_ context.Context, _ *vfs.Cred, h vfs.Handle) (vfs.FSStat, vfs.MaybeAttr, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.nodeOf(h)
	free := uint64(f.size - f.used)
	return vfs.FSStat{
		TotalBytes: uint64(f.size), FreeBytes: free, AvailBytes: free,
		TotalFiles: uint64(f.size / objectCost), FreeFiles: free / objectCost, AvailFiles: free / objectCost,
	}, n.maybeAttr(), err
}

// PathConf returns the limits on names.
func (f *FS) PathConf(_ context.Context, _ *vfs.Cred, h vfs.Handle) (vfs.PathConf, vfs.MaybeAttr, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.nodeOf(h)
	return vfs.PathConf{LinkMax: maxLinks, NameMax: maxName, NoTrunc: true, ChownRestricted: true, CasePreserving: true}, n.maybeAttr(), err
}
