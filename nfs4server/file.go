package nfs4server

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// WithFiles returns the configuration of a State for a Server: the File of an
// Open is a *realm.Open.
func WithFiles(c nfs4state.Config) nfs4state.Config {
	c.Release = func(file any) {
		if f, ok := file.(*delegated); ok {
			f.release()
			return
		}
		file.(*realm.Open).Close()
	}
	c.ReleaseEnded = func(files []any) {
		go func() { // the storage may hang
			for _, f := range files {
				c.Release(f)
			}
		}()
	}
	c.Merge = func(file, other any) { file.(*realm.Open).Merge(other.(*realm.Open)) }
	c.Narrow = func(file any, access uint32) any {
		if rest := file.(*realm.Open).Narrow(openAccess(access)); rest != nil {
			return rest
		}
		return nil
	}
	return c
}

// openAccess converts bits of share_access.
func openAccess(access uint32) (out vfs.OpenAccess) {
	if access&nfs4.ShareRead != 0 {
		out |= vfs.OpenRead
	}
	if access&nfs4.ShareWrite != 0 {
		out |= vfs.OpenWrite
	}
	return out
}

// ExportsChanged revokes the state of exports that the realm has no longer. It
// must be called after realm.Realm.SetExports.
func (s *Server) ExportsChanged() {
	s.state.Revoke(func(file any) bool { return openOf(file).Removed() })
}

// Close closes all files that clients have open, and releases all locks. No call
// may come any more. Close waits at most closeTime for storage that does not
// answer, which may still close the files later.
func (s *Server) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.callbacks.close()
		s.state.Retire()
		s.state.Revoke(func(any) bool { return true })
		s.state.WaitHost()
	}()
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
		s.log.Warn("files of NFS version 4 cannot be closed, because their storage does not answer")
	}
}

// closeTime is how long Close waits.
const closeTime = 2 * time.Second

// writer returns a File through which the caller can write to the current
// object, or nil. Done must follow.
func (x *compound) writer() (f *realm.File) {
	u := x.current.use
	key, err := x.key(&x.current)
	if err != nil {
		return nil
	}
	session := x.session
	if x.minor == nfs4.Minor0 {
		session = nil // COMMIT has no stateid: an open of the same user will do
	}
	x.server.state.EachOpen(session, key, func(o *nfs4state.Open) bool {
		f = u.FileOf(openOf(o.File), vfs.OpenWrite)
		return f == nil
	})
	return f
}

// setSize changes the size of the current object and then its other attributes. f is
// an open file by which the size changes, or nil. sized tells whether it has changed.
func (x *compound) setSize(ctx context.Context, f *realm.File, set vfs.SetAttr) (sized bool, err error) {
	u, h := x.current.use, x.current.h
	rest := set
	rest.Size = nil
	if set.AtimeHow == vfs.DontChange && set.MtimeHow == vfs.SetToServer {
		rest.MtimeHow = vfs.DontChange // the new size sets it
	}
	alone := rest == (vfs.SetAttr{})
	switch {
	case f == nil:
		err = u.BeforeSetAttr(ctx, h, &set)
	case alone:
		err = u.BeforeOpenWrite(ctx, h)
	default:
		err = u.BeforeSetAttr(ctx, h, &rest)
	}
	if err != nil {
		return false, err
	}
	if f != nil {
		err = f.SetSize(ctx, *set.Size)
	} else {
		_, err = u.Export.FS.SetAttr(ctx, &u.Cred, h, vfs.SetAttr{Size: set.Size}, nil)
	}
	if err != nil || alone {
		return err == nil, err
	}
	_, err = u.Export.FS.SetAttr(ctx, &u.Cred, h, rest, nil)
	return true, err
}
