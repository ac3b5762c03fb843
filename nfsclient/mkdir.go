package nfsclient

import (
	"context"
	"errors"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Mkdir creates the directory path with the given mode.
func (f *FS) Mkdir(ctx context.Context, path string, mode uint32) error {
	dir, name, err := f.findParent(ctx, path)
	if err == nil {
		_, err = f.c.Mkdir(ctx, mkdirArgs(dir, name, mode))
	}
	return pathError("mkdir", path, err)
}

func mkdirArgs(dir nfs3.FH, name string, mode uint32) *nfs3.MkdirArgs {
	return &nfs3.MkdirArgs{
		Where: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)},
		Attr:  nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: mode}},
	}
}

// MkdirAll creates the directory path and any missing parents, with the given
// mode. Directories that other clients create concurrently are not an error.
func (f *FS) MkdirAll(ctx context.Context, path string, mode uint32) error {
	w := pathWalker{f: f, dirs: slices.Clone(f.dirs), rest: path, follow: true}
	w.makeDir = func(ctx context.Context, dir nfs3.FH, name string) (Node, error) {
		a := mkdirArgs(dir, name, mode)
		res, err := f.c.Mkdir(ctx, a)
		if errors.Is(err, nfs3.ErrExist) {
			return f.lookUpNode(ctx, dir, name)
		}
		if err != nil {
			return Node{}, err
		}
		return f.completeNode(ctx, &a.Where, &res)
	}
	p, err := w.walkAll(ctx)
	if err == nil && p.node.Attr.Type != nfs3.TypeDir {
		err = &Error{Proc: nfs3.ProcMkdir, Status: nfs3.ErrNotDir}
	}
	return pathError("mkdir", path, err)
}
