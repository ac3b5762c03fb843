package main

import (
	"os"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/util"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
	"github.com/willscott/go-nfs/helpers/memfs"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/stream"
)

// handles is how many file handles go-nfs keeps.
const handles = 4096

// streamListener turns a listener for RDMA into a listener for go-nfs.
func streamListener(l rdma.Listener) *stream.Listener {
	return stream.Listen(l, nfs3.Binding{}, mount3.Binding{})
}

// memoryHandler returns go-nfs's handler for an in-memory file system. The file system
// needs a file for its root to exist.
func memoryHandler() (nfs.Handler, error) {
	fs := memfs.New()
	if err := util.WriteFile(fs, "hello", []byte("from memory\n"), 0o644); err != nil {
		return nil, err
	}
	return helpers.NewCachingHandler(helpers.NewNullAuthHandler(attrIgnorer{fs}), handles), nil
}

// attrIgnorer accepts and ignores changes to attributes that the file system lacks, so
// that clients can create files with any mode.
type attrIgnorer struct{ billy.Filesystem }

var _ billy.Change = attrIgnorer{}

// OpenFile opens an existing file in spite of O_EXCL: go-nfs truncates files
// with that flag, which the in-memory file system refuses.
func (u attrIgnorer) OpenFile(name string, flag int, perm os.FileMode) (billy.File, error) {
	if flag&os.O_CREATE == 0 {
		flag &^= os.O_EXCL
	}
	return u.Filesystem.OpenFile(name, flag, perm)
}

func (attrIgnorer) Chmod(string, os.FileMode) error            { return nil }
func (attrIgnorer) Lchown(string, int, int) error              { return nil }
func (attrIgnorer) Chown(string, int, int) error               { return nil }
func (attrIgnorer) Chtimes(string, time.Time, time.Time) error { return nil }
