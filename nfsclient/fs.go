package nfsclient

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// An FS is the tree below a directory in an export. Its methods take paths
// relative to that directory, with or without a leading slash. Names are byte
// strings. A path that leaves the export is an error; ".." follows the
// directories that the path passed through, not the names.
//
// Errors are *fs.PathError, or *os.LinkError for two paths, and wrap the errors
// from Client's methods.
type FS struct {
	c           *Client
	dirs        []nfs3.FH // from the export's root to the directory where paths start
	exportNames []string  // the names in the export's path on the server; nil: unknown

	readSize, writeSize, listSize int // bytes
	noReadDirPlus                 *atomic.Bool
}

// FS queries the limits (FSINFO) of the file system whose root is root, and
// returns it. export is its path on the server, and is used to resolve absolute
// symbolic links: links that lead below export are followed. If export is "" or
// "/", an absolute link starts at root.
func (c *Client) FS(ctx context.Context, root nfs3.FH, export string) (*FS, error) {
	var info nfs3.FSInfoRes
	err := c.ForMount(func(c *Client) (err error) {
		info, err = c.FSInfo(ctx, root)
		return err
	})
	if err != nil {
		return nil, pathError("mount", export, err)
	}
	return &FS{
		c:             c,
		dirs:          []nfs3.FH{slices.Clone(root)},
		exportNames:   splitPath(export),
		readSize:      transferSize(c.cfg.ReadSize, info.RTMax),
		writeSize:     transferSize(c.cfg.WriteSize, info.WTMax),
		listSize:      int(min(max(info.DTPref, pageSize), maxListing)),
		noReadDirPlus: new(atomic.Bool),
	}, nil
}

// transferSize returns the transfer size in bytes if the client wants n and the
// server allows limit.
func transferSize(n int, limit uint32) int {
	if limit == 0 { // a limit that allows no transfer at all
		limit = pageSize
	}
	n = int(min(int64(n), int64(limit)))
	if n > pageSize {
		n -= n % pageSize
	}
	return n
}

// splitPath returns the names in a path.
func splitPath(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// Client returns the Client that f calls through.
func (f *FS) Client() *Client { return f.c }

// Root returns the handle of the directory where f's paths start.
func (f *FS) Root() nfs3.FH { return f.dirs[len(f.dirs)-1] }

// Sub returns the tree below the directory at path. Paths that leave that
// directory must stay within f's export.
func (f *FS) Sub(ctx context.Context, path string) (*FS, error) {
	p, err := f.walkPath(ctx, path, true)
	if err == nil && p.node.Attr.Type != nfs3.TypeDir {
		err = errNotDir
	}
	if err != nil {
		return nil, pathError("open", path, err)
	}
	sub := *f
	sub.dirs = p.dirs
	if p.name != "" {
		sub.dirs = append(sub.dirs, p.node.Handle)
	}
	return &sub, nil
}

// File returns the file with the given handle, for example from a listing.
func (f *FS) File(handle nfs3.FH) *File { return &File{fs: f, handle: handle} }

// ReadSize returns the maximum number of bytes that one READ requests, as the
// server and the Client's Config allow.
func (f *FS) ReadSize() int { return f.readSize }

// WriteSize returns the maximum number of bytes that one WRITE carries.
func (f *FS) WriteSize() int { return f.writeSize }

// ListSize returns the number of bytes that one READDIR or READDIRPLUS
// requests.
func (f *FS) ListSize() int { return f.listSize }
