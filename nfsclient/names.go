package nfsclient

import (
	"context"
	"io/fs"
	"os"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Stat finds the object at path, and follows symbolic links.
func (f *FS) Stat(ctx context.Context, path string) (Node, error) { return f.stat(ctx, path, true) }

// Lstat finds the object at path, without following a symbolic link at its end.
func (f *FS) Lstat(ctx context.Context, path string) (Node, error) { return f.stat(ctx, path, false) }

func (f *FS) stat(ctx context.Context, path string, follow bool) (Node, error) {
	p, err := f.walk(ctx, path, follow)
	return p.node, pathError("stat", path, err)
}

// pathError adds the path to an error, if err is not nil.
func pathError(op, path string, err error) error {
	if err != nil {
		err = &fs.PathError{Op: op, Path: path, Err: err}
	}
	return err
}

func linkError(op, from, to string, err error) error {
	if err != nil {
		err = &os.LinkError{Op: op, Old: from, New: to, Err: err}
	}
	return err
}

// SetAttr changes attributes of the object at path, and follows symbolic links.
func (f *FS) SetAttr(ctx context.Context, path string, attr nfs3.SetAttr) error {
	p, err := f.walk(ctx, path, true)
	if err == nil {
		_, err = f.c.SetAttr(ctx, &nfs3.SetAttrArgs{Object: p.node.Handle, Attr: attr})
	}
	return pathError("setattr", path, err)
}

// Readlink returns the path in a symbolic link.
func (f *FS) Readlink(ctx context.Context, path string) (string, error) {
	p, err := f.walk(ctx, path, false)
	if err != nil {
		return "", pathError("readlink", path, err)
	}
	res, err := f.c.ReadLink(ctx, p.node.Handle)
	return string(res.Path), pathError("readlink", path, err)
}

// Symlink creates the symbolic link path with the given target.
func (f *FS) Symlink(ctx context.Context, target, path string) error {
	dir, name, err := f.parent(ctx, path)
	if err == nil {
		_, err = f.c.Symlink(ctx, &nfs3.SymlinkArgs{
			Where: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)},
			Attr:  nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o777}}, // the mode of all symbolic links on Linux
			Path:  []byte(target),
		})
	}
	return linkError("symlink", target, path, err)
}

// Link makes newPath an additional name of the object at oldPath. If oldPath is
// a symbolic link, the link itself gets the name.
func (f *FS) Link(ctx context.Context, oldPath, newPath string) error {
	p, err := f.walk(ctx, oldPath, false)
	if err == nil {
		var to nfs3.DirOpArgs
		if to, err = f.where(ctx, newPath); err == nil {
			_, err = f.c.Link(ctx, &nfs3.LinkArgs{File: p.node.Handle, Link: to})
		}
	}
	return linkError("link", oldPath, newPath, err)
}

// where returns the result of parent as arguments.
func (f *FS) where(ctx context.Context, path string) (nfs3.DirOpArgs, error) {
	dir, name, err := f.parent(ctx, path)
	return nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}, err
}

// Rename renames the object at oldPath to newPath, and replaces any object
// there.
func (f *FS) Rename(ctx context.Context, oldPath, newPath string) error {
	from, err := f.where(ctx, oldPath)
	if err == nil {
		var to nfs3.DirOpArgs
		if to, err = f.where(ctx, newPath); err == nil {
			_, err = f.c.Rename(ctx, &nfs3.RenameArgs{From: from, To: to})
		}
	}
	return linkError("rename", oldPath, newPath, err)
}

// Remove removes the name path, unless path is a directory.
func (f *FS) Remove(ctx context.Context, path string) error {
	dir, name, err := f.parent(ctx, path)
	if err == nil {
		_, err = f.c.Remove(ctx, dir, name)
	}
	return pathError("remove", path, err)
}

// Rmdir removes the empty directory path.
func (f *FS) Rmdir(ctx context.Context, path string) error {
	dir, name, err := f.parent(ctx, path)
	if err == nil {
		_, err = f.c.Rmdir(ctx, dir, name)
	}
	return pathError("rmdir", path, err)
}
