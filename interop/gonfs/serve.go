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
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// handles is how many file handles go-nfs remembers.
const handles = 4096

// streams makes a listener for go-nfs of one for RDMA.
func streams(l rdma.Listener) *rpcrdma.StreamListener {
	return rpcrdma.NewStreamListener(l, nfs3.Binding{}, mount3.Binding{})
}

// memory is go-nfs's handler of a file system in memory. Without a file its root
// is not there.
func memory() (nfs.Handler, error) {
	fs := memfs.New()
	if err := util.WriteFile(fs, "hello", []byte("from memory\n"), 0o644); err != nil {
		return nil, err
	}
	return helpers.NewCachingHandler(helpers.NewNullAuthHandler(unchanged{fs}), handles), nil
}

// unchanged lets clients change attributes that the file system does not have, so
// that they may create files of any mode: nothing comes of it.
type unchanged struct{ billy.Filesystem }

var _ billy.Change = unchanged{}

// OpenFile opens a file that is there although O_EXCL is asked for, as go-nfs does
// to cut files and the file system in memory refuses.
func (u unchanged) OpenFile(name string, flag int, perm os.FileMode) (billy.File, error) {
	if flag&os.O_CREATE == 0 {
		flag &^= os.O_EXCL
	}
	return u.Filesystem.OpenFile(name, flag, perm)
}

func (unchanged) Chmod(string, os.FileMode) error            { return nil }
func (unchanged) Lchown(string, int, int) error              { return nil }
func (unchanged) Chown(string, int, int) error               { return nil }
func (unchanged) Chtimes(string, time.Time, time.Time) error { return nil }
