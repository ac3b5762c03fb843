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

	// Automount, if not nil, mounts the real file system when a client uses it.
	Automount *Automount
}

// An Automount mounts a file system when a client uses it, as autofs does. A client that only looks at
// the mount point does not use the file system: it gets the mount point's attributes.
type Automount struct {
	Attr    vfs.MaybeAttr // of the mount point; clients that ask for them must try again while they are unknown
	Trigger func()        // starts to mount, and does not wait
}

// later returns Later, and triggers the automount if there is one.
func (u Unavailable) later() error {
	if u.Automount != nil {
		u.Automount.Trigger()
	}
	return Later
}

var _ vfs.FS = Unavailable{}

// Root returns a handle of no object.
func (Unavailable) Root() vfs.Handle { return vfs.Handle{} }

// WriteVerifier returns 0, because no data is written.
func (Unavailable) WriteVerifier() uint64 { return 0 }

// Close does nothing.
func (Unavailable) Close() error { return nil }

// GetAttr returns the attributes of an automount's mount point. Otherwise it returns Later, and so do
// all methods below.
func (u Unavailable) GetAttr(_ context.Context, _ *vfs.Cred, h vfs.Handle) (a vfs.Attr, err error) {
	if u.Automount != nil && u.Automount.Attr.OK && h == u.Root() {
		return u.Automount.Attr.Attr, nil
	}
	return a, u.later()
}

// SetAttr returns Later.
func (u Unavailable) SetAttr(context.Context, *vfs.Cred, vfs.Handle, vfs.SetAttr, *vfs.Time) (w vfs.WCC, err error) {
	return w, u.later()
}

// Lookup returns Later.
func (u Unavailable) Lookup(context.Context, *vfs.Cred, vfs.Handle, string) (h vfs.Handle, obj, dir vfs.MaybeAttr, err error) {
	return h, obj, dir, u.later()
}

// Access returns Later.
func (u Unavailable) Access(context.Context, *vfs.Cred, vfs.Handle, uint32) (rights uint32, a vfs.MaybeAttr, err error) {
	return 0, a, u.later()
}

// ReadLink returns Later.
func (u Unavailable) ReadLink(context.Context, *vfs.Cred, vfs.Handle) (target string, a vfs.MaybeAttr, err error) {
	return "", a, u.later()
}

// Read returns Later.
func (u Unavailable) Read(context.Context, *vfs.Cred, vfs.Handle, []byte, uint64) (n int, eof bool, a vfs.MaybeAttr, err error) {
	return 0, false, a, u.later()
}

// Write returns Later.
func (u Unavailable) Write(context.Context, *vfs.Cred, vfs.Handle, []byte, uint64, vfs.Stable) (n int, done vfs.Stable, w vfs.WCC, err error) {
	return 0, done, w, u.later()
}

// Commit returns Later.
func (u Unavailable) Commit(context.Context, *vfs.Cred, vfs.Handle, uint64, uint32) (w vfs.WCC, err error) {
	return w, u.later()
}

// Create returns Later.
func (u Unavailable) Create(context.Context, *vfs.Cred, vfs.Handle, string, vfs.CreateHow) (m vfs.Made, err error) {
	return m, u.later()
}

// Mkdir returns Later.
func (u Unavailable) Mkdir(context.Context, *vfs.Cred, vfs.Handle, string, vfs.SetAttr) (m vfs.Made, err error) {
	return m, u.later()
}

// Symlink returns Later.
func (u Unavailable) Symlink(context.Context, *vfs.Cred, vfs.Handle, string, string, vfs.SetAttr) (m vfs.Made, err error) {
	return m, u.later()
}

// Mknod returns Later.
func (u Unavailable) Mknod(context.Context, *vfs.Cred, vfs.Handle, string, vfs.Type, vfs.Dev, vfs.SetAttr) (m vfs.Made, err error) {
	return m, u.later()
}

// Remove returns Later.
func (u Unavailable) Remove(context.Context, *vfs.Cred, vfs.Handle, string) (w vfs.WCC, err error) {
	return w, u.later()
}

// Rmdir returns Later.
func (u Unavailable) Rmdir(context.Context, *vfs.Cred, vfs.Handle, string) (w vfs.WCC, err error) {
	return w, u.later()
}

// Rename returns Later.
func (u Unavailable) Rename(context.Context, *vfs.Cred, vfs.Handle, string, vfs.Handle, string) (from, to vfs.WCC, err error) {
	return from, to, u.later()
}

// Link returns Later.
func (u Unavailable) Link(context.Context, *vfs.Cred, vfs.Handle, vfs.Handle, string) (obj vfs.MaybeAttr, dir vfs.WCC, err error) {
	return obj, dir, u.later()
}

// ReadDir returns Later.
func (u Unavailable) ReadDir(context.Context, *vfs.Cred, vfs.Handle, uint64, uint64, bool, func(*vfs.Entry) bool) (dir vfs.MaybeAttr, verifier uint64, eof bool, err error) {
	return dir, 0, false, u.later()
}

// StatFS returns Later.
func (u Unavailable) StatFS(context.Context, *vfs.Cred, vfs.Handle) (s vfs.FSStat, a vfs.MaybeAttr, err error) {
	return s, a, u.later()
}

// PathConf returns Later.
func (u Unavailable) PathConf(context.Context, *vfs.Cred, vfs.Handle) (p vfs.PathConf, a vfs.MaybeAttr, err error) {
	return p, a, u.later()
}
