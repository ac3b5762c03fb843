package exportset

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A File is an open file in an export. Calls that use it keep it open, even after endFile.
type File struct {
	vfs.File
	source  *source
	cred    vfs.Cred // the caller that opened the file
	users   atomic.Int64
	isEnded atomic.Bool
}

// tryUse begins a caller's use of the file. It returns false if the file is closed, or was
// opened by another caller, with other rights. Otherwise the caller must call Done.
func (f *File) tryUse(c *vfs.Cred) bool {
	if f.cred.UID != c.UID || f.cred.GID != c.GID || !slices.Equal(f.cred.Groups, c.Groups) {
		return false
	}
	for n := f.users.Load(); n > 0; n = f.users.Load() {
		if f.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// Part returns the part of a file that starts at an offset: through f, or with the handle if f
// is nil.
func (f *File) Part(h vfs.Handle, off uint64) vfs.Part {
	p := vfs.Part{Handle: h, Offset: off}
	if f != nil {
		p.File = f.File
	}
	return p
}

// Done ends a use of the file. After endFile, the last call closes the file.
func (f *File) Done() {
	if f.users.Add(-1) == 0 {
		f.source.forgetFile(f)
		f.File.Close()
	}
}

// endFile closes the file as soon as no call uses it.
func (f *File) endFile() {
	if !f.isEnded.Swap(true) {
		f.Done()
	}
}

// An Open is an object in an export that a client has open, with a File for each access, if the
// file system keeps files open. It is safe for concurrent use.
type Open struct {
	source      *source
	read, write atomic.Pointer[File]
}

// OpenFile opens an object in the entered export as the call's caller.
func (q *Request) OpenFile(ctx context.Context, h vfs.Handle, access vfs.OpenAccess) (*Open, error) {
	if q.Export.Opener == nil {
		return q.newOpen(vfs.Opened{}), nil
	}
	o, err := q.Export.Opener.OpenFile(vfs.WithClient(ctx, q.Addr()), &q.Cred, h, access)
	if err != nil {
		return nil, err
	}
	return q.newOpen(o), nil
}

// CreateFile creates a file as vfs.FS.Create does, and opens it.
func (q *Request) CreateFile(ctx context.Context, p Place, how vfs.CreateHow, access vfs.OpenAccess) (vfs.Made, *Open, error) {
	if q.Export.Opener == nil {
		made, err := q.Export.FS.Create(ctx, &q.Cred, p.Dir, p.Name, how)
		return made, q.newOpen(vfs.Opened{}), err
	}
	made, o, err := q.Export.Opener.CreateFile(vfs.WithClient(ctx, q.Addr()), &q.Cred, p.Dir, p.Name, how, access)
	return made, q.newOpen(o), err
}

// OpenMarker returns an Open without Files: it shows whether the entered export has been
// removed.
func (q *Request) OpenMarker() *Open { return &Open{source: q.Export.source} }

func (q *Request) newOpen(o vfs.Opened) *Open {
	s := q.Export.source
	out := &Open{source: s}
	out.read.Store(q.newFile(o.Read))
	out.write.Store(q.newFile(o.Write))
	return out
}

// newFile returns a File that is closed with its export.
func (q *Request) newFile(v vfs.File) *File {
	if v == nil {
		return nil
	}
	f := &File{File: v, source: q.Export.source, cred: q.Cred}
	f.cred.Groups = slices.Clone(q.Cred.Groups)
	f.users.Store(1)
	f.source.rememberFile(f)
	return f
}

// FileOf returns o's File for one kind of access, if the call's caller has opened it in the
// call's export. The caller must then call Done. Otherwise FileOf returns nil, and the caller
// must use the handle, which checks the caller's rights.
func (q *Request) FileOf(o *Open, access vfs.OpenAccess) *File {
	if o == nil || o.source != q.Export.source {
		return nil
	}
	p := &o.read
	if access == vfs.OpenWrite {
		p = &o.write
	}
	if f := p.Load(); f != nil && f.tryUse(&q.Cred) {
		return f
	}
	return nil
}

// Merge moves to o the Files in another Open that o does not have. It moves no File from
// another export, with which that File is closed.
func (o *Open) Merge(other *Open) {
	if o.source != other.source {
		return
	}
	if f := other.read.Load(); f != nil && o.read.CompareAndSwap(nil, f) {
		other.read.Store(nil)
	}
	if f := other.write.Load(); f != nil && o.write.CompareAndSwap(nil, f) {
		other.write.Store(nil)
	}
}

// Narrow removes from o the Files that are not for access, and returns them as another Open, or
// nil if there are none.
func (o *Open) Narrow(access vfs.OpenAccess) *Open {
	rest := &Open{source: o.source}
	if access&vfs.OpenRead == 0 {
		rest.read.Store(o.read.Swap(nil))
	}
	if access&vfs.OpenWrite == 0 {
		rest.write.Store(o.write.Swap(nil))
	}
	if rest.read.Load() == nil && rest.write.Load() == nil {
		return nil
	}
	return rest
}

// Close closes o's Files. A File that a call uses is closed after the call, and a File in a
// removed export is closed with the export.
func (o *Open) Close() {
	if !o.source.enterCall() {
		return
	}
	defer o.source.leaveCall()
	for _, p := range []*atomic.Pointer[File]{&o.read, &o.write} {
		if f := p.Swap(nil); f != nil {
			f.endFile()
		}
	}
}

// IsRemoved reports whether o's export has been removed, so that its files are closed.
func (o *Open) IsRemoved() bool { return o.source.calls.Load() < 0 }
