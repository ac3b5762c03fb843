package copytree

import (
	"context"
	"io/fs"
	"iter"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A Tree is a directory, here or on a server, and everything below it. Paths
// are relative to the tree. In trees that sub returns, paths are single names,
// and cannot lead outside the tree, even if a server sends malicious names.
//
//	hostTree    this machine's files, by any path
//	   └ sub ─▶ rootTree     one directory, which os.Root does not let us leave
//	remoteTree  an export, by a path in it, or a directory of it
type Tree interface {
	// stat finds the object at path, or with follow the target of a symbolic
	// link there.
	stat(ctx context.Context, path string, follow bool) (entry, error)
	// list lists the directory itself.
	list(ctx context.Context) iter.Seq2[entry, error]
	// sub returns the directory at path. fresh reports that this copy just made
	// the directory, so that create cannot meet existing names.
	sub(ctx context.Context, path string, fresh bool) (Tree, error)

	open(ctx context.Context, e entry) (file, error)
	create(ctx context.Context, path string, mode uint32) (file, error)
	mkdir(ctx context.Context, path string, mode uint32) error
	readlink(ctx context.Context, e entry) (string, error)
	symlink(ctx context.Context, target, path string) error
	remove(ctx context.Context, path string) error
	// set changes attributes of the directory itself. setLink changes
	// attributes of a symbolic link, whose mode has no effect.
	set(ctx context.Context, c change) error
	setLink(ctx context.Context, path string, c change) error

	// Explain wraps err with the name of path, in plain words.
	Explain(path string, err error) error
	// mayChown reports whether changes of owner are worth a try.
	mayChown() bool
	close()
}

// A file is an open file: a *localFile or a *remoteFile.
type file interface {
	set(ctx context.Context, c change) error
	close() error
}

// IsDir reports whether path is a directory of t, or a symbolic link to one.
func IsDir(ctx context.Context, t Tree, path string) (bool, error) {
	e, err := t.stat(ctx, path, true)
	return err == nil && e.kind.IsDir(), err
}

// An entry is an object in a tree, as stat or list found it.
type entry struct {
	path   string
	handle nfs3.FH // on a server

	kind         fs.FileMode // type bits
	mode         uint32      // permissions, with 07000
	size, used   int64       // bytes: length, and storage used
	uid, gid     uint32
	atime, mtime time.Time
	id           fileID
}

// sparse reports whether a file has holes.
func (e *entry) sparse() bool { return e.used < e.size }

// A fileID identifies a file on a server. It is zero for files of this machine.
type fileID struct {
	server   string
	fs, file uint64
}

// A change is a set of attributes to change.
type change struct {
	setMode bool
	mode    uint32

	setTimes     bool
	atime, mtime time.Time

	setOwner bool // if the user may change owners
	uid, gid uint32
}

// forbidden returns c without its refused change of owner. It drops the set-ID
// bits too, which would otherwise grant rights of another user.
func (c change) forbidden() change {
	c.setOwner = false
	c.mode &^= 0o6000
	return c
}

// attr converts c to NFS's form.
func (c change) attr() (a nfs3.SetAttr) {
	a.Mode = nfs3.OptUint32{Set: c.setMode, Value: c.mode}
	a.UID = nfs3.OptUint32{Set: c.setOwner, Value: c.uid}
	a.GID = nfs3.OptUint32{Set: c.setOwner, Value: c.gid}
	if c.setTimes {
		a.Atime = nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfsTime(c.atime)}
		a.Mtime = nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfsTime(c.mtime)}
	}
	return a
}
