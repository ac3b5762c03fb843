package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// errTreeTooDeep is the error for a tree that is infinite, or too deep.
var errTreeTooDeep = fmt.Errorf("directories are nested more than %d deep", maxTree)

// RemoveAll removes path and, if path is a directory, everything below it. A
// missing path is not an error, and symbolic links are not followed. RemoveAll
// stops at the first error, which names the object that could not be removed.
func (f *FS) RemoveAll(ctx context.Context, path string) error {
	dir, name, err := f.findParent(ctx, path)
	var n Node
	if err == nil {
		n, err = f.lookUpNode(ctx, dir, name)
	}
	if err != nil {
		return pathError("remove", path, ignoreRemoved(err))
	}
	return f.removeTree(ctx, dir, n, strings.TrimRight(path, "/"), name, 0)
}

// removeTree removes n, whose name is name, from dir. path is n's path.
func (f *FS) removeTree(ctx context.Context, dir nfs3.FH, n Node, path, name string, depth int) error {
	if n.Attr.Type != nfs3.TypeDir {
		return f.removeFile(ctx, dir, path, name)
	}
	if depth == maxTree {
		return pathError("remove", path, errTreeTooDeep)
	}
	for sweep := 1; ; sweep++ {
		if err := f.emptyDir(ctx, n.Handle, path, depth); err != nil {
			return err
		}
		_, err := f.c.Rmdir(ctx, dir, name)
		if !errors.Is(err, nfs3.ErrNotEmpty) || sweep == maxSweeps {
			return pathError("remove", path, ignoreRemoved(err))
		}
	}
}

func (f *FS) removeFile(ctx context.Context, dir nfs3.FH, path, name string) error {
	_, err := f.c.Remove(ctx, dir, name)
	return pathError("remove", path, ignoreRemoved(err))
}

// emptyDir removes everything in dir: files concurrently, directories
// sequentially.
func (f *FS) emptyDir(ctx context.Context, dir nfs3.FH, path string, depth int) error {
	for s := (dirScan{f: f, dir: dir}); !s.eof; {
		if err := s.readPage(ctx); err != nil {
			return pathError("readdir", path, ignoreRemoved(err))
		}
		var files, dirs []DirEntry
		for _, e := range s.entries {
			if e.Attr.OK && e.Attr.Attr.Type == nfs3.TypeDir {
				dirs = append(dirs, e)
			} else {
				files = append(files, e)
			}
		}
		_, _, err := runInOrder(len(files), f.c.cfg.Depth, func(i int) (int, error) {
			return 0, f.removeFile(ctx, dir, path+"/"+files[i].Name, files[i].Name)
		})
		for i := 0; i < len(dirs) && err == nil; i++ {
			e := &dirs[i]
			err = f.removeTree(ctx, dir, Node{e.Handle, e.Attr.Attr}, path+"/"+e.Name, e.Name, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ignoreRemoved returns nil if err says that the object or directory no longer
// exists.
func ignoreRemoved(err error) error {
	if errors.Is(err, nfs3.ErrNoEnt) || errors.Is(err, nfs3.ErrStale) {
		return nil
	}
	return err
}
