package nfsclient

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// An FS is the tree below a directory of an export. Its methods take paths
// from there, with or without a slash in front. Names are octets. A path that
// leads out of the export is an error; one with ".." in it follows the
// directories that it went through, not the names.
//
// Errors are *fs.PathError, or *os.LinkError where there are two paths, around
// what Client's methods return.
type FS struct {
	c    *Client
	dirs []nfs3.FH // from the export's root down to where paths begin
	path []string  // the names in the export's path on the server; nil: unknown

	readSize, writeSize, listSize int // octets
	plain                         *atomic.Bool
}

// FS asks for the limits of the file system (FSINFO) whose root is root, and
// returns it. export is its path on the server, by which symbolic links with
// an absolute path are understood: those that lead below export are followed.
// Where export is "" or "/", such a link begins at root.
func (c *Client) FS(ctx context.Context, root nfs3.FH, export string) (*FS, error) {
	info, err := c.FSInfo(ctx, root)
	if err != nil {
		return nil, pathError("mount", export, err)
	}
	return &FS{
		c:         c,
		dirs:      []nfs3.FH{slices.Clone(root)},
		path:      names(export),
		readSize:  transferSize(c.cfg.ReadSize, info.RTMax),
		writeSize: transferSize(c.cfg.WriteSize, info.WTMax),
		listSize:  int(min(max(info.DTPref, pageSize), maxListing)),
		plain:     new(atomic.Bool),
	}, nil
}

// transferSize returns how many octets one call transfers where we want n and
// the server allows limit.
func transferSize(n int, limit uint32) int {
	if limit == 0 { // which would be no file system at all
		limit = pageSize
	}
	n = int(min(int64(n), int64(limit)))
	if n > pageSize {
		n -= n % pageSize
	}
	return n
}

// names returns the names in a path.
func names(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// Client returns the Client that f calls through.
func (f *FS) Client() *Client { return f.c }

// Root returns the handle of the directory where f's paths begin.
func (f *FS) Root() nfs3.FH { return f.dirs[len(f.dirs)-1] }

// Sub returns the tree below the directory at path. What leads out of it stays
// within f's export.
func (f *FS) Sub(ctx context.Context, path string) (*FS, error) {
	p, err := f.walk(ctx, path, true)
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

// File returns the file with the given handle, which a listing had, say.
func (f *FS) File(handle nfs3.FH) *File { return &File{fs: f, handle: handle} }

// ReadSize returns the most octets that one READ asks for: what the server and
// the Client's Config allow.
func (f *FS) ReadSize() int { return f.readSize }

// WriteSize returns the most octets that one WRITE carries.
func (f *FS) WriteSize() int { return f.writeSize }

// ListSize returns the octets that one READDIR or READDIRPLUS asks for.
func (f *FS) ListSize() int { return f.listSize }
