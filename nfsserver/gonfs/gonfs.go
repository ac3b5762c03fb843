package gonfs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/file"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/billy"
)

// New returns a go-nfs handler's file system for an nfsserver.Export: the file system that the
// handler mounts as "/". It uses the handler's file handles, which may have 1 to 44 bytes. For
// another length of the root's handle, New fails; for any other handle, the call that needs it
// fails. Several calls may use the handler at once, as go-nfs's connections do; changes are
// executed one at a time.
//
// The handler does not decide whether a client may mount; Export.Clients does. Package
// vfs/billy describes the limits of file systems that do not know their callers, and these
// limits apply here. So does its rule that host files without a Sync are an error. All other
// files count as stable once closed (billy.Options.Volatile). Links, devices, sockets and FIFOs
// can be created if the handler's Change is an nfs.UnixChange.
func New(h nfs.Handler) (vfs.FS, error) {
	client, server := net.Pipe() // for handlers that inspect the connection
	defer client.Close()
	defer server.Close()
	status, fs, _ := h.Mount(context.Background(), client, nfs.MountRequest{Dirpath: []byte("/")})
	if status != nfs.MountStatusOk || fs == nil {
		return nil, fmt.Errorf("gonfs: the handler does not mount %q: %w", "/", mount3.Status(status))
	}
	f, err := billy.New(fs, billy.Options{
		Change:     h.Change(fs),
		Info:       fileInfo,
		StatFS:     func(ctx context.Context) (vfs.FSStat, error) { return statFS(ctx, h, fs) },
		Handles:    handlerHandles{h, fs},
		Errors:     toStatus,
		Volatile:   !isHostFS(fs),
		Concurrent: true,
	})
	if err != nil {
		return nil, fmt.Errorf("gonfs: the handler cannot be exported: %w", err)
	}
	return f, nil
}

// isHostFS reports whether fs's files are the host's, which keeps written data in memory until
// a sync.
func isHostFS(fs gobilly.Filesystem) bool {
	fi, err := fs.Lstat(fs.Join())
	if err != nil {
		return false // it has no root yet
	}
	_, ok := billy.SysInfo(fi)
	return ok
}

// toStatus returns the NFS status for a handler's error, or the error itself if it has none.
func toStatus(err error) error {
	if s, ok := errors.AsType[*nfs.NFSStatusError](err); ok {
		return nfs3.Status(s.NFSStatus)
	}
	return err
}

// fileInfo returns the information that a go-nfs handler, or the host, has about a file.
func fileInfo(fi os.FileInfo) (billy.Info, bool) {
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

// statFS queries a handler for its space, as go-nfs does: values that the handler does not set
// are unlimited.
func statFS(ctx context.Context, h nfs.Handler, fs gobilly.Filesystem) (vfs.FSStat, error) {
	const unlimited = 1 << 62
	s := nfs.FSStat{TotalSize: unlimited, FreeSize: unlimited, AvailableSize: unlimited, TotalFiles: unlimited, FreeFiles: unlimited, AvailableFiles: unlimited}
	if !gobilly.CapabilityCheck(fs, gobilly.WriteCapability) {
		s.AvailableSize, s.AvailableFiles = 0, 0
	}
	err := h.FSStat(ctx, fs, &s)
	return vfs.FSStat{
		TotalBytes: s.TotalSize, FreeBytes: s.FreeSize, AvailBytes: s.AvailableSize,
		TotalFiles: s.TotalFiles, FreeFiles: s.FreeFiles, AvailFiles: s.AvailableFiles,
	}, err
}

// handlerHandles are a handler's file handles.
type handlerHandles struct {
	h  nfs.Handler
	fs gobilly.Filesystem
}

func (h handlerHandles) Handle(path []string) ([]byte, error) { return h.h.ToHandle(h.fs, path), nil }

func (h handlerHandles) Path(handle []byte) ([]string, error) {
	_, path, err := h.h.FromHandle(handle)
	return path, err
}

// Forget ignores an error: a handle that is not forgotten still leads to its path.
func (h handlerHandles) Forget(handle []byte) { _ = h.h.InvalidateHandle(h.fs, handle) }
