package nfs4server

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// WithFiles returns a State's configuration for a Server: the File of an Open is an
// *exportset.Open.
func WithFiles(c nfs4state.Config) nfs4state.Config {
	c.Release = func(file any) {
		if f, ok := file.(*delegatedFile); ok {
			f.release()
			return
		}
		file.(*exportset.Open).Close()
	}
	c.ReleaseEnded = func(files []any) {
		go func() { // the storage may hang
			for _, f := range files {
				c.Release(f)
			}
		}()
	}
	c.LockWaited = func(storage any, key string) (waited, known bool) {
		e, ok := storage.(*exportset.Exported)
		if !ok {
			return false, false
		}
		return e.LockWaited(key)
	}
	c.Merge = func(file, other any) { file.(*exportset.Open).Merge(other.(*exportset.Open)) }
	c.Narrow = func(file any, access uint32) any {
		if rest := file.(*exportset.Open).Narrow(toOpenAccess(access)); rest != nil {
			return rest
		}
		return nil
	}
	return c
}

// toOpenAccess converts share_access bits.
func toOpenAccess(access uint32) (out vfs.OpenAccess) {
	if access&nfs4.ShareRead != 0 {
		out |= vfs.OpenRead
	}
	if access&nfs4.ShareWrite != 0 {
		out |= vfs.OpenWrite
	}
	return out
}

// revokeRemoved revokes the state in exports that the export set no longer contains.
func (s *Server) revokeRemoved() {
	s.state.Revoke(func(file any) bool { return openOf(file).IsRemoved() })
}

// Close closes all files that clients have open, and releases all locks. No call may arrive
// afterwards. Close waits at most closeTimeout for storage that does not respond; the files may
// then be closed later.
func (s *Server) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.callbacks.shutDown()
		s.state.StopRecording()
		s.state.Revoke(func(any) bool { return true })
		s.state.WaitForHostLocks()
	}()
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-closed:
	case <-timeout.C:
		s.log.Warn("cannot close NFSv4 files: the storage does not respond")
	}
}

// closeTimeout is the maximum time that Close waits.
const closeTimeout = 2 * time.Second

// findWritableFile returns a File through which the caller can write to the current object, or
// nil. The caller must call Done.
func (x *compound) findWritableFile() (f *exportset.File) {
	u := x.current.use
	key, err := x.objectKey(&x.current)
	if err != nil {
		return nil
	}
	session := x.session
	if x.minor == nfs4.Minor0 {
		session = nil // COMMIT has no stateid: an open by the same user is sufficient
	}
	x.server.state.EachOpen(session, key, func(o *nfs4state.Open) bool {
		f = u.FileOf(openOf(o.File), vfs.OpenWrite)
		return f == nil
	})
	return f
}

// setSize changes the current object's size and then its other attributes, the size through f
// unless it is nil. sized reports whether the size has changed.
func (x *compound) setSize(ctx context.Context, f *exportset.File, set vfs.SetAttr) (sized bool, err error) {
	u, h := x.current.use, x.current.h
	rest := set
	rest.Size = nil
	if set.AtimeHow == vfs.DontChange && set.MtimeHow == vfs.SetToServer {
		rest.MtimeHow = vfs.DontChange // setting the size sets it
	}
	onlySize := rest == (vfs.SetAttr{})
	switch {
	case f == nil:
		err = u.BeforeSetAttr(ctx, h, &set)
	case onlySize:
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
	if err != nil || onlySize {
		return err == nil, err
	}
	_, err = u.Export.FS.SetAttr(ctx, &u.Cred, h, rest, nil)
	return true, err
}
