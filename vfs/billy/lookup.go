package billy

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// GetAttr returns an object's attributes.
func (f *FS) GetAttr(_ context.Context, _ *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	o, err := f.getObject(h)
	return o.attr, err
}

// Lookup finds a name in a directory, without following a symbolic link.
func (f *FS) Lookup(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string) (h vfs.Handle, obj, dirAttr vfs.MaybeAttr, err error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	d, err := f.getDirectory(dir)
	if err != nil {
		return h, obj, dirAttr, err
	}
	o, err := f.lookupName(&d, name)
	if err != nil {
		return h, obj, maybeAttrOf(&d.attr), err
	}
	return o.n.handle, maybeAttrOf(&o.attr), maybeAttrOf(&d.attr), nil
}

func (f *FS) lookupName(d *object, name string) (object, error) {
	switch name {
	case ".":
		return *d, nil
	case "..":
		return f.objectOf(f.table.parentOf(d.n))
	}
	if err := vfs.CheckName(name, maxName); err != nil {
		return object{}, err
	}
	return f.childOf(d, name)
}

// Access grants rights without regard to callers: everyone may execute a file if anyone may.
func (f *FS) Access(_ context.Context, _ *vfs.Cred, h vfs.Handle, mask uint32) (uint32, vfs.MaybeAttr, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	o, err := f.getObject(h)
	if err != nil {
		return 0, vfs.MaybeAttr{}, err
	}
	granted := vfs.AccessRead | vfs.AccessModify | vfs.AccessExtend
	switch {
	case o.attr.Type == vfs.TypeDir:
		granted |= vfs.AccessLookup | vfs.AccessDelete
	case o.attr.Mode&0o111 != 0:
		granted |= vfs.AccessExecute
	}
	if f.readOnly {
		granted &^= vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete
	}
	return mask & granted, maybeAttrOf(&o.attr), nil
}

// ReadLink returns a symbolic link's target.
func (f *FS) ReadLink(_ context.Context, _ *vfs.Cred, h vfs.Handle) (string, vfs.MaybeAttr, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	o, err := f.getObject(h)
	if err != nil {
		return "", vfs.MaybeAttr{}, err
	}
	if o.attr.Type != vfs.TypeLnk {
		return "", maybeAttrOf(&o.attr), syscall.EINVAL
	}
	target, err := f.fs.Readlink(o.name)
	return target, maybeAttrOf(&o.attr), f.errnoOf(err)
}

// StatFS returns Options.StatFS's result, or unlimited space.
func (f *FS) StatFS(ctx context.Context, _ *vfs.Cred, h vfs.Handle) (vfs.FSStat, vfs.MaybeAttr, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	o, err := f.getObject(h)
	if err != nil {
		return vfs.FSStat{}, vfs.MaybeAttr{}, err
	}
	if f.o.StatFS != nil {
		s, err := f.o.StatFS(ctx)
		return s, maybeAttrOf(&o.attr), f.errnoOf(err)
	}
	const much = 1 << 62
	s := vfs.FSStat{TotalBytes: much, FreeBytes: much, AvailBytes: much, TotalFiles: much, FreeFiles: much, AvailFiles: much}
	if f.readOnly {
		s.AvailBytes, s.AvailFiles = 0, 0
	}
	return s, maybeAttrOf(&o.attr), nil
}

// PathConf returns the FS's own limits.
func (f *FS) PathConf(_ context.Context, _ *vfs.Cred, h vfs.Handle) (vfs.PathConf, vfs.MaybeAttr, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	o, err := f.getObject(h)
	if err != nil {
		return vfs.PathConf{}, vfs.MaybeAttr{}, err
	}
	p := vfs.PathConf{LinkMax: 1, NameMax: maxName, NoTrunc: true, ChownRestricted: true, CasePreserving: true}
	if f.special != nil {
		p.LinkMax = maxLinks
	}
	return p, maybeAttrOf(&o.attr), nil
}

// checkNewName is vfs.CheckName for a new object: "." and ".." always exist.
func checkNewName(name string) error {
	if vfs.IsDots(name) {
		return syscall.EEXIST
	}
	return vfs.CheckName(name, maxName)
}
