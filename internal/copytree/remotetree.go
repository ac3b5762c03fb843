package copytree

import (
	"context"
	"iter"
	"math"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A Remote is a directory on a server.
type Remote struct {
	FS     *nfsclient.FS
	Server string // identifies the server
	UID    uint32 // user ID of the calls

	// Explain wraps an error with the name of its object, which is at a path
	// below the directory.
	Explain func(path string, err error) error

	// Name returns the name of the object at a path below the directory.
	Name func(path string) string
}

// Tree returns the Tree of r.
func (r Remote) Tree() Tree { return &remoteTree{Remote: r} }

// A remoteTree is a Remote or a directory below it.
type remoteTree struct {
	Remote
	path  string // below the Remote
	isNew bool   // just created by this copy
}

var _ Tree = (*remoteTree)(nil)

func (t *remoteTree) Explain(path string, err error) error {
	return t.Remote.Explain(t.path+"/"+path, err)
}

// Name returns the name that the caller gives to path.
func (t *remoteTree) Name(path string) string { return t.Remote.Name(t.path + "/" + path) }

func (t *remoteTree) mayChown() bool { return t.UID == 0 }

func (t *remoteTree) isFresh() bool { return t.isNew }

func (t *remoteTree) close() {}

func (t *remoteTree) stat(ctx context.Context, path string, follow bool) (entry, error) {
	stat := t.FS.Lstat
	if follow {
		stat = t.FS.Stat
	}
	node, err := stat(ctx, path)
	if err != nil {
		return entry{}, err
	}
	return t.newEntry(path, node.Handle, &node.Attr), nil
}

func (t *remoteTree) newEntry(path string, handle nfs3.FH, a *nfs3.Attr) entry {
	return entry{
		path: path, handle: handle, kind: fileKinds[a.Type], mode: a.Mode & 0o7777,
		size: int64(min(a.Size, math.MaxInt64)), used: int64(min(a.Used, math.MaxInt64)),
		uid: a.UID, gid: a.GID, nlink: a.Nlink, atime: goTime(a.Atime), mtime: goTime(a.Mtime), ctime: goTime(a.Ctime),
		id: fileID{t.Server, a.FSID, a.FileID},
	}
}

// listEntries lists the directory. It looks up entries for which the listing has no
// attributes.
func (t *remoteTree) listEntries(ctx context.Context) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for d, err := range t.FS.ReadDir(ctx, "") {
			var e entry
			switch {
			case err != nil:
			case d.Attr.OK && d.Handle != nil:
				e = t.newEntry(d.Name, d.Handle, &d.Attr.Attr)
			default:
				e, err = t.stat(ctx, d.Name, false)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (t *remoteTree) openSub(ctx context.Context, path string, fresh bool) (Tree, error) {
	fs, err := t.FS.Sub(ctx, path)
	if err != nil {
		return nil, err
	}
	sub := *t
	sub.FS, sub.path, sub.isNew = fs, t.path+"/"+path, fresh
	return &sub, nil
}

// A remoteFile is a file on a server.
type remoteFile struct{ *nfsclient.File }

func (t *remoteTree) openFile(_ context.Context, e entry) (openFile, error) {
	return &remoteFile{t.FS.File(e.handle)}, nil
}

func (t *remoteTree) createFile(ctx context.Context, path string, mode uint32) (openFile, error) {
	f, err := t.FS.Create(ctx, path, mode)
	if err != nil {
		return nil, err
	}
	return &remoteFile{f}, nil
}

func (f *remoteFile) setAttr(ctx context.Context, c attrChange) error {
	return setRemoteAttr(c, func(a nfs3.SetAttr) error { return f.SetAttr(ctx, a) })
}

func (f *remoteFile) truncate(ctx context.Context, size int64) error {
	return f.Truncate(ctx, uint64(size))
}

func (f *remoteFile) closeFile() error { return nil }

func (t *remoteTree) mkdir(ctx context.Context, path string, mode uint32) error {
	return t.FS.Mkdir(ctx, path, mode)
}

func (t *remoteTree) readlink(ctx context.Context, e entry) (string, error) {
	res, err := t.FS.Client().ReadLink(ctx, e.handle)
	return string(res.Path), err
}

func (t *remoteTree) symlink(ctx context.Context, target, path string) error {
	return t.FS.Symlink(ctx, target, path)
}

func (t *remoteTree) remove(ctx context.Context, path string) error { return t.FS.Remove(ctx, path) }

func (t *remoteTree) setAttr(ctx context.Context, c attrChange) error {
	root := t.FS.File(t.FS.Root())
	return setRemoteAttr(c, func(a nfs3.SetAttr) error { return root.SetAttr(ctx, a) })
}

func (t *remoteTree) setLinkAttr(ctx context.Context, path string, c attrChange) error {
	node, err := t.FS.Lstat(ctx, path)
	if err != nil {
		return err
	}
	c.setMode = false // some servers reject modes for links
	link := t.FS.File(node.Handle)
	return setRemoteAttr(c, func(a nfs3.SetAttr) error { return link.SetAttr(ctx, a) })
}

// setRemoteAttr changes attributes in one call, without the owner if the server
// rejects that. A change of owner may clear set-user-ID and set-group-ID, even if
// the same call sets them (Linux's server). setRemoteAttr then sets the mode in a
// second call.
func setRemoteAttr(c attrChange, set func(nfs3.SetAttr) error) error {
	if c.setOwner && c.setMode && c.mode&0o6000 != 0 {
		if err := set(attrChange{setOwner: true, uid: c.uid, gid: c.gid}.toSetAttr()); err != nil {
			c = c.withoutOwner()
		}
		c.setOwner = false
	}
	if err := set(c.toSetAttr()); err == nil || !c.setOwner {
		return err
	}
	return set(c.withoutOwner().toSetAttr())
}
