package exportset

import (
	"context"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Unavailable is the file system of an export that cannot be served at present, for instance
// because its disk is missing. Requests get no permit to call it, but Later, so that clients try
// again, whatever they ask for, and handles do not become stale. SetExports replaces it with the
// real file system.
type Unavailable struct {
	Reason         string // for administrators
	ClientsUnknown bool   // every client must try again; otherwise only those in Export.Clients
}

var _ vfs.FS = Unavailable{}

// Root returns a handle of no object.
func (Unavailable) Root() vfs.Handle { return vfs.Handle{} }

// WriteVerifier returns 0, because no data is written.
func (Unavailable) WriteVerifier() uint64 { return 0 }

// Close does nothing.
func (Unavailable) Close() error { return nil }

// GetAttr returns Later, and so do all methods below.
func (Unavailable) GetAttr(context.Context, *vfs.Cred, vfs.Handle) (a vfs.Attr, err error) {
	return a, Later
}

// SetAttr returns Later.
func (Unavailable) SetAttr(context.Context, *vfs.Cred, vfs.Handle, vfs.SetAttr, *vfs.Time) (w vfs.WCC, err error) {
	return w, Later
}

// Lookup returns Later.
func (Unavailable) Lookup(context.Context, *vfs.Cred, vfs.Handle, string) (h vfs.Handle, obj, dir vfs.MaybeAttr, err error) {
	return h, obj, dir, Later
}

// Access returns Later.
func (Unavailable) Access(context.Context, *vfs.Cred, vfs.Handle, uint32) (rights uint32, a vfs.MaybeAttr, err error) {
	return 0, a, Later
}

// ReadLink returns Later.
func (Unavailable) ReadLink(context.Context, *vfs.Cred, vfs.Handle) (target string, a vfs.MaybeAttr, err error) {
	return "", a, Later
}

// Read returns Later.
func (Unavailable) Read(context.Context, *vfs.Cred, vfs.Handle, []byte, uint64) (n int, eof bool, a vfs.MaybeAttr, err error) {
	return 0, false, a, Later
}

// Write returns Later.
func (Unavailable) Write(context.Context, *vfs.Cred, vfs.Handle, []byte, uint64, vfs.Stable) (n int, done vfs.Stable, w vfs.WCC, err error) {
	return 0, done, w, Later
}

// Commit returns Later.
func (Unavailable) Commit(context.Context, *vfs.Cred, vfs.Handle, uint64, uint32) (w vfs.WCC, err error) {
	return w, Later
}

// Create returns Later.
func (Unavailable) Create(context.Context, *vfs.Cred, vfs.Handle, string, vfs.CreateHow) (m vfs.Made, err error) {
	return m, Later
}

// Mkdir returns Later.
func (Unavailable) Mkdir(context.Context, *vfs.Cred, vfs.Handle, string, vfs.SetAttr) (m vfs.Made, err error) {
	return m, Later
}

// Symlink returns Later.
func (Unavailable) Symlink(context.Context, *vfs.Cred, vfs.Handle, string, string, vfs.SetAttr) (m vfs.Made, err error) {
	return m, Later
}

// Mknod returns Later.
func (Unavailable) Mknod(context.Context, *vfs.Cred, vfs.Handle, string, vfs.Type, vfs.Dev, vfs.SetAttr) (m vfs.Made, err error) {
	return m, Later
}

// Remove returns Later.
func (Unavailable) Remove(context.Context, *vfs.Cred, vfs.Handle, string) (w vfs.WCC, err error) {
	return w, Later
}

// Rmdir returns Later.
func (Unavailable) Rmdir(context.Context, *vfs.Cred, vfs.Handle, string) (w vfs.WCC, err error) {
	return w, Later
}

// Rename returns Later.
func (Unavailable) Rename(context.Context, *vfs.Cred, vfs.Handle, string, vfs.Handle, string) (from, to vfs.WCC, err error) {
	return from, to, Later
}

// Link returns Later.
func (Unavailable) Link(context.Context, *vfs.Cred, vfs.Handle, vfs.Handle, string) (obj vfs.MaybeAttr, dir vfs.WCC, err error) {
	return obj, dir, Later
}

// ReadDir returns Later.
func (Unavailable) ReadDir(context.Context, *vfs.Cred, vfs.Handle, uint64, uint64, bool, func(*vfs.Entry) bool) (dir vfs.MaybeAttr, verifier uint64, eof bool, err error) {
	return dir, 0, false, Later
}

// StatFS returns Later.
func (Unavailable) StatFS(context.Context, *vfs.Cred, vfs.Handle) (s vfs.FSStat, a vfs.MaybeAttr, err error) {
	return s, a, Later
}

// PathConf returns Later.
func (Unavailable) PathConf(context.Context, *vfs.Cred, vfs.Handle) (p vfs.PathConf, a vfs.MaybeAttr, err error) {
	return p, a, Later
}
