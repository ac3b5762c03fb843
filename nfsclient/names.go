package nfsclient

import (
	"context"
	"io/fs"
	"os"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Stat finds the object at path, and what a symbolic link leads to.
func (f *FS) Stat(ctx context.Context, path string) (Node, error) { return f.stat(ctx, path, true) }

// Lstat finds the object at path, be it a symbolic link.
func (f *FS) Lstat(ctx context.Context, path string) (Node, error) { return f.stat(ctx, path, false) }

func (f *FS) stat(ctx context.Context, path string, follow bool) (Node, error) {
	p, err := f.walk(ctx, path, follow)
	return p.node, pathError("stat", path, err)
}

// pathError puts a path to an error, if there is one.
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

// SetAttr changes attributes of the object at path, or of what a symbolic link
// leads to.
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

// Symlink makes the symbolic link path with target in it.
func (f *FS) Symlink(ctx context.Context, target, path string) error {
	dir, name, err := f.parent(ctx, path)
	if err == nil {
		_, err = f.c.Symlink(ctx, &nfs3.SymlinkArgs{
			Where: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)},
			Attr:  nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o777}}, // as Linux has them all
			Path:  []byte(target),
		})
	}
	return linkError("symlink", target, path, err)
}

// Link makes newPath one more name of the object at oldPath, which it does not
// follow where it is a symbolic link.
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

// where is parent as arguments.
func (f *FS) where(ctx context.Context, path string) (nfs3.DirOpArgs, error) {
	dir, name, err := f.parent(ctx, path)
	return nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}, err
}

// Rename gives the object at oldPath the name newPath, in place of what had it.
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

// Remove removes the name path, unless it is a directory's.
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
