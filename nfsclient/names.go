package nfsclient

import (
	"context"
	"io/fs"
	"os"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Stat returns the object at path, and follows symbolic links.
func (f *FS) Stat(ctx context.Context, path string) (Node, error) { return f.statPath(ctx, path, true) }

// Lstat returns the object at path, without following a symbolic link at its
// end.
func (f *FS) Lstat(ctx context.Context, path string) (Node, error) {
	return f.statPath(ctx, path, false)
}

func (f *FS) statPath(ctx context.Context, path string, follow bool) (Node, error) {
	p, err := f.walkPath(ctx, path, follow)
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
	p, err := f.walkPath(ctx, path, true)
	if err == nil {
		_, err = f.c.SetAttr(ctx, &nfs3.SetAttrArgs{Object: p.node.Handle, Attr: attr})
	}
	return pathError("setattr", path, err)
}

// Readlink returns the path in a symbolic link.
func (f *FS) Readlink(ctx context.Context, path string) (string, error) {
	p, err := f.walkPath(ctx, path, false)
	if err != nil {
		return "", pathError("readlink", path, err)
	}
	res, err := f.c.ReadLink(ctx, p.node.Handle)
	return string(res.Path), pathError("readlink", path, err)
}

// Symlink creates the symbolic link path with the given target.
func (f *FS) Symlink(ctx context.Context, target, path string) error {
	dir, name, err := f.findParent(ctx, path)
	if err == nil {
		_, err = f.c.Symlink(ctx, &nfs3.SymlinkArgs{
			Where: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)},
			Attr:  nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o777}}, // the mode that all symbolic links have on Linux
			Path:  []byte(target),
		})
	}
	return linkError("symlink", target, path, err)
}

// Link creates newPath as an additional name for the object at oldPath. If
// oldPath is a symbolic link, the link itself gets the name.
func (f *FS) Link(ctx context.Context, oldPath, newPath string) error {
	p, err := f.walkPath(ctx, oldPath, false)
	if err == nil {
		var to nfs3.DirOpArgs
		if to, err = f.newDirOpArgs(ctx, newPath); err == nil {
			_, err = f.c.Link(ctx, &nfs3.LinkArgs{File: p.node.Handle, Link: to})
		}
	}
	return linkError("link", oldPath, newPath, err)
}

// newDirOpArgs finds path's directory and returns it with the last name.
func (f *FS) newDirOpArgs(ctx context.Context, path string) (nfs3.DirOpArgs, error) {
	dir, name, err := f.findParent(ctx, path)
	return nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}, err
}

// Rename renames the object at oldPath to newPath, and replaces any object
// there.
func (f *FS) Rename(ctx context.Context, oldPath, newPath string) error {
	from, err := f.newDirOpArgs(ctx, oldPath)
	if err == nil {
		var to nfs3.DirOpArgs
		if to, err = f.newDirOpArgs(ctx, newPath); err == nil {
			_, err = f.c.Rename(ctx, &nfs3.RenameArgs{From: from, To: to})
		}
	}
	return linkError("rename", oldPath, newPath, err)
}

// Remove removes the name path, unless path is a directory.
func (f *FS) Remove(ctx context.Context, path string) error {
	dir, name, err := f.findParent(ctx, path)
	if err == nil {
		_, err = f.c.Remove(ctx, dir, name)
	}
	return pathError("remove", path, err)
}

// Rmdir removes the empty directory path.
func (f *FS) Rmdir(ctx context.Context, path string) error {
	dir, name, err := f.findParent(ctx, path)
	if err == nil {
		_, err = f.c.Rmdir(ctx, dir, name)
	}
	return pathError("rmdir", path, err)
}
