package copytree

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// findName returns the directory handle and the name for a path.
func (t *remoteTree) findName(ctx context.Context, name string) (nfs3.DirOpArgs, error) {
	dir, base := path.Split(name)
	in := t.FS
	if dir != "" {
		var err error
		if in, err = in.Sub(ctx, dir); err != nil {
			return nfs3.DirOpArgs{}, err
		}
	}
	return nfs3.DirOpArgs{Dir: in.Root(), Name: []byte(base)}, nil
}

// createPart creates a file with one CREATE (GUARDED). In a large tree this saves many
// calls. A random mtime, which the first WRITE replaces, shows whether a file that exists
// was created by an earlier transmission of the same call.
func (t *remoteTree) createPart(ctx context.Context, name string, mode uint32, src *entry) (openFile, error) {
	where, err := t.findName(ctx, name)
	if err != nil {
		return nil, err
	}
	attr := nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: mode}}
	if src.size > 0 {
		attr.Mtime = nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfs3.Time{Sec: 1 + rand.Uint32N(1<<31-1), Nsec: 1000 * rand.Uint32N(1e6)}}
	}
	if mark := src.mark(); !mark.IsZero() {
		attr.Atime = nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfsTime(mark)}
	}
	c := t.FS.Client()
	res, err := c.Create(ctx, &nfs3.CreateArgs{Where: where, Mode: nfs3.Guarded, Attr: attr})
	if err == nil && res.Object != nil {
		return &remoteFile{t.FS.File(res.Object)}, nil
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	found, ferr := c.Lookup(ctx, where.Dir, string(where.Name)) // a server may omit the handle
	if ferr != nil {
		return nil, errors.Join(err, ferr)
	}
	a := &found.ObjAttr
	isOurs := a.OK && a.Attr.Type == nfs3.TypeReg && a.Attr.Size == 0 && src.size > 0 && a.Attr.Mtime == attr.Mtime.Time
	if err != nil && !isOurs {
		return nil, err
	}
	return &remoteFile{t.FS.File(found.Object)}, nil
}

func (t *remoteTree) openPart(_ context.Context, e entry, hasMark bool) (openFile, error) {
	if e.uid != t.UID && !hasMark {
		return nil, errPartOwner
	}
	return &remoteFile{t.FS.File(e.handle)}, nil
}

// renamePart renames a file. An earlier transmission of the call may have succeeded, or
// another copy of the same version: then path names the file already.
func (t *remoteTree) renamePart(ctx context.Context, f openFile, part, name string) error {
	from, err := t.findName(ctx, part)
	if err != nil {
		return err
	}
	to := nfs3.DirOpArgs{Dir: from.Dir, Name: []byte(path.Base(name))}
	c := t.FS.Client()
	_, err = c.Rename(ctx, &nfs3.RenameArgs{From: from, To: to})
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there, lerr := c.Lookup(ctx, to.Dir, string(to.Name))
	if lerr != nil {
		return err
	}
	theirs, terr := c.GetAttr(ctx, there.Object)
	ours, oerr := f.(*remoteFile).Stat(ctx)
	if terr != nil || oerr != nil || theirs.FileID != ours.FileID || theirs.FSID != ours.FSID {
		return err
	}
	return nil
}

func (t *remoteTree) syncNames(context.Context, string) error { return nil }

func (f *remoteFile) version(ctx context.Context) (fileVersion, error) {
	a, err := f.Stat(ctx)
	return fileVersion{int64(a.Size), goTime(a.Mtime).UnixNano(), goTime(a.Ctime).UnixNano()}, err
}

func (f *remoteFile) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	return f.ReadAt(ctx, p, off)
}
