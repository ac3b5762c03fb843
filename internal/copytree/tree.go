package copytree

import (
	"context"
	"io/fs"
	"iter"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A Tree is a directory, on this machine or on a server, and everything below it.
// Paths are relative to the tree. In trees that openSub returns, paths are single
// names, and cannot lead outside the tree, even if a server sends malicious names.
//
//	hostTree    this machine's files, by any path
//	   └ sub ─▶ rootTree     one directory, which os.Root does not let us leave
//	remoteTree  an export, by a path in it, or a directory of it
type Tree interface {
	// stat finds the object at path, or with follow the target of a symbolic
	// link there.
	stat(ctx context.Context, path string, follow bool) (entry, error)
	// listEntries lists the directory itself.
	listEntries(ctx context.Context) iter.Seq2[entry, error]
	// openSub returns the directory at path. isNew reports that this copy just
	// created the directory, so that createFile cannot find existing names.
	openSub(ctx context.Context, path string, fresh bool) (Tree, error)

	openFile(ctx context.Context, e entry) (openFile, error)
	// createFile creates a file, or truncates what a symbolic link leads to.
	createFile(ctx context.Context, path string, mode uint32) (openFile, error)
	// createPart creates a partial copy of src, with its mark. It fails with
	// fs.ErrExist if anything has the name.
	createPart(ctx context.Context, path string, mode uint32, src *entry) (openFile, error)
	// openPart opens an existing partial file, which stat has found, for reading
	// and writing. It rejects other users' files, which they could read and change;
	// a server may have its own user ID for us, but only if the file has our mark.
	openPart(ctx context.Context, e entry, hasMark bool) (openFile, error)
	// renamePart gives a complete partial file its final name.
	renamePart(ctx context.Context, f openFile, part, path string) error
	// syncNames puts the names in the directory of path on stable storage. On a
	// server they already are.
	syncNames(ctx context.Context, path string) error
	mkdir(ctx context.Context, path string, mode uint32) error
	readlink(ctx context.Context, e entry) (string, error)
	symlink(ctx context.Context, target, path string) error
	// link makes path another name for a file that this copy has created, perhaps
	// in another tree. It returns errNoLink if it cannot.
	link(ctx context.Context, first destination, path string) error
	remove(ctx context.Context, path string) error
	// setAttr changes attributes of the directory itself. setLinkAttr changes
	// attributes of a symbolic link, whose mode has no effect.
	setAttr(ctx context.Context, c attrChange) error
	setLinkAttr(ctx context.Context, path string, c attrChange) error

	// Explain wraps err with the name of path, as readable text.
	Explain(path string, err error) error
	// Name returns the name of path, as readable text.
	Name(path string) string
	// mayChown reports whether changes of owner may succeed.
	mayChown() bool
	// isFresh reports whether the copy created the directory, so that no name
	// exists in it.
	isFresh() bool
	close()
}

// An openFile is an open file: a *localFile or a *remoteFile.
type openFile interface {
	// version returns the file's current version.
	version(ctx context.Context) (fileVersion, error)
	// readAt fills p, unless the file ends first.
	readAt(ctx context.Context, p []byte, off int64) (int, error)
	truncate(ctx context.Context, size int64) error
	setAttr(ctx context.Context, c attrChange) error
	closeFile() error
}

// IsDir reports whether path is a directory of t, or a symbolic link to one.
func IsDir(ctx context.Context, t Tree, path string) (bool, error) {
	e, err := t.stat(ctx, path, true)
	return err == nil && e.kind.IsDir(), err
}

// An entry is an object in a tree, as stat or listEntries found it.
type entry struct {
	path   string
	handle nfs3.FH // nil unless on a server

	kind         fs.FileMode // type bits
	mode         uint32      // permissions, with 07000
	size, used   int64       // bytes: length, and storage used
	uid, gid     uint32
	nlink        uint32
	atime, mtime time.Time
	ctime        time.Time
	id           fileID
}

// version returns the version of the file that stat or listEntries found.
func (e *entry) version() fileVersion {
	return fileVersion{e.size, e.mtime.UnixNano(), e.ctime.UnixNano()}
}

// A fileVersion differs between two contents of one file: each change sets ctime.
type fileVersion struct{ size, mtime, ctime int64 } // times in nanoseconds

// isSparse reports whether a file has holes.
func (e *entry) isSparse() bool { return e.used < e.size }

// A fileID identifies a file on a server, or, with the server "", on this machine.
type fileID struct {
	server   string
	fs, file uint64
}

// An attrChange tells which attributes to change.
type attrChange struct {
	setMode bool
	mode    uint32

	setTimes     bool
	atime, mtime time.Time

	setOwner bool // if the user may change owners
	uid, gid uint32

	setMark    bool // set only atime
	resetAtime bool // replace a mark by the current time
}

// withoutOwner returns c without its rejected change of owner. It also drops the
// set-ID bits, which would otherwise grant another user's rights.
func (c attrChange) withoutOwner() attrChange {
	c.setOwner = false
	c.mode &^= 0o6000
	return c
}

// toSetAttr converts c to its NFS form.
func (c attrChange) toSetAttr() (a nfs3.SetAttr) {
	a.Mode = nfs3.OptUint32{Set: c.setMode, Value: c.mode}
	a.UID = nfs3.OptUint32{Set: c.setOwner, Value: c.uid}
	a.GID = nfs3.OptUint32{Set: c.setOwner, Value: c.gid}
	switch {
	case c.setMark:
		a.Atime = nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfsTime(c.atime)}
	case c.setTimes:
		a.Atime = nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfsTime(c.atime)}
		a.Mtime = nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfsTime(c.mtime)}
	case c.resetAtime:
		a.Atime.How = nfs3.SetToServerTime
	}
	return a
}
