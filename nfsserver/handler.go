package nfsserver

import (
	"context"
	"fmt"
	"net"
	"os"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/file"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/billy"
)

// HandlerExport returns the file system of a go-nfs handler, to be exported: the
// one that the handler mounts as "/". Its file handles are the handler's, which
// may have 44 octets at most: longer ones are an error here, if the root's is, or
// of the call that needs one, as is the root's where it is empty. Several calls
// may use the handler at once, as go-nfs's connections do; changes are done one at
// a time.
//
// The handler is not asked whether a client may mount: that is Export.Clients's.
// What package vfs/billy says of file systems that do not know their callers goes
// for this one, and what it says of the host's files without a Sync: they are an
// error. All else is taken to be stable once it is closed (billy.Options.Volatile). Links, devices, sockets and FIFOs are made where the handler's
// Change is an nfs.UnixChange.
func HandlerExport(h nfs.Handler) (vfs.FS, error) {
	here, there := net.Pipe() // for handlers that look at whom they serve
	defer here.Close()
	defer there.Close()
	status, fs, _ := h.Mount(context.Background(), here, nfs.MountRequest{Dirpath: []byte("/")})
	if status != nfs.MountStatusOk || fs == nil {
		return nil, fmt.Errorf("nfsserver: the handler does not mount %q: %w", "/", mount3.Status(status))
	}
	f, err := billy.New(fs, billy.Options{
		Change:     h.Change(fs),
		Info:       handlerInfo,
		StatFS:     func(ctx context.Context) (vfs.FSStat, error) { return handlerFSStat(ctx, h, fs) },
		Handles:    handlerHandles{h, fs},
		Volatile:   !ofHost(fs),
		Concurrent: true,
	})
	if err != nil {
		return nil, fmt.Errorf("nfsserver: the handler cannot be exported: %w", err)
	}
	return f, nil
}

// ofHost tells whether the files of fs are the host's, which keeps what was written
// to them in memory until they are synced.
func ofHost(fs gobilly.Filesystem) bool {
	fi, err := fs.Lstat(fs.Join())
	if err != nil {
		return false // it has no root yet
	}
	_, ok := billy.SysInfo(fi)
	return ok
}

// handlerInfo is what go-nfs's handlers tell of a file, or the host.
func handlerInfo(fi os.FileInfo) (billy.Info, bool) {
	if x, ok := billy.SysInfo(fi); ok {
		return x, true
	}
	x := file.GetInfo(fi)
	if x == nil {
		return billy.Info{}, false
	}
	return billy.Info{
		FileID: x.Fileid, Nlink: x.Nlink, UID: x.UID, GID: x.GID,
		Rdev: vfs.Dev{Major: x.Major, Minor: x.Minor}, Used: uint64(max(fi.Size(), 0)),
	}, true
}

// handlerFSStat asks a handler for its space, as go-nfs does: what the handler
// does not say has no end.
func handlerFSStat(ctx context.Context, h nfs.Handler, fs gobilly.Filesystem) (vfs.FSStat, error) {
	const much = 1 << 62
	s := nfs.FSStat{TotalSize: much, FreeSize: much, AvailableSize: much, TotalFiles: much, FreeFiles: much, AvailableFiles: much}
	if !gobilly.CapabilityCheck(fs, gobilly.WriteCapability) {
		s.AvailableSize, s.AvailableFiles = 0, 0
	}
	err := h.FSStat(ctx, fs, &s)
	return vfs.FSStat{
		TotalBytes: s.TotalSize, FreeBytes: s.FreeSize, AvailBytes: s.AvailableSize,
		TotalFiles: s.TotalFiles, FreeFiles: s.FreeFiles, AvailFiles: s.AvailableFiles,
	}, err
}

// handlerHandles are the file handles of a handler.
type handlerHandles struct {
	h  nfs.Handler
	fs gobilly.Filesystem
}

func (h handlerHandles) Handle(path []string) ([]byte, error) { return h.h.ToHandle(h.fs, path), nil }

func (h handlerHandles) Path(handle []byte) ([]string, error) {
	_, path, err := h.h.FromHandle(handle)
	return path, err
}

// Forget has nobody to tell of an error: what is not forgotten goes by its path.
func (h handlerHandles) Forget(handle []byte) { _ = h.h.InvalidateHandle(h.fs, handle) }
