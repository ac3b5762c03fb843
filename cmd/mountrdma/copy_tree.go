package main

import (
	"context"
	"io/fs"
	"iter"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A tree is a directory, here or on a server, and what is below it. Paths are
// taken from there. Those of the trees that sub returns are single names, and
// lead to nowhere else, whatever a server says.
//
//	hostTree    this machine's files, by any path
//	   └ sub ─▶ rootTree     one directory, which os.Root does not let us leave
//	remoteTree  an export, by a path in it, or a directory of it
type tree interface {
	// stat finds what path names, or what a symbolic link there leads to.
	stat(ctx context.Context, path string, follow bool) (entry, error)
	// list lists the directory itself.
	list(ctx context.Context) iter.Seq2[entry, error]
	// sub returns the directory at path. fresh tells that it was just made,
	// so that nothing is there that create could meet.
	sub(ctx context.Context, path string, fresh bool) (tree, error)

	open(ctx context.Context, e entry) (file, error)
	create(ctx context.Context, path string, mode uint32) (file, error)
	mkdir(ctx context.Context, path string, mode uint32) error
	readlink(ctx context.Context, e entry) (string, error)
	symlink(ctx context.Context, target, path string) error
	remove(ctx context.Context, path string) error
	// set changes attributes of the directory itself, and setLink those of
	// a symbolic link, whose mode does not matter.
	set(ctx context.Context, c change) error
	setLink(ctx context.Context, path string, c change) error

	// explain says that err is of path, in plain words.
	explain(path string, err error) error
	// mayChown tells whether owners can be hoped to be changed.
	mayChown() bool
	close()
}

// A file is an open file: a *localFile or a *remoteFile.
type file interface {
	set(ctx context.Context, c change) error
	close() error
}

// An entry is an object in a tree, as it was found.
type entry struct {
	path   string
	handle nfs3.FH // on a server

	kind         fs.FileMode // type bits
	mode         uint32      // permissions, with 07000
	size, used   int64       // octets, and those that take room
	uid, gid     uint32
	atime, mtime time.Time
	id           fileID
}

// sparse tells whether there are holes in a file.
func (e *entry) sparse() bool { return e.used < e.size }

// A fileID tells files on servers apart; it is zero for those of this machine.
type fileID struct {
	server   server
	fs, file uint64
}

// A change is what is to become of attributes.
type change struct {
	setMode bool
	mode    uint32

	setTimes     bool
	atime, mtime time.Time

	setOwner bool // if the owner of the new file may do that
	uid, gid uint32
}

// forbidden is the rest of a change of owner that is not allowed: without the
// bits that would give somebody else's rights away.
func (c change) forbidden() change {
	c.setOwner = false
	c.mode &^= 0o6000
	return c
}

// attr is c as NFS has it.
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
