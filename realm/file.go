package realm

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A File is an open file of an export. Calls that use it keep it open, also
// after its end.
type File struct {
	vfs.File
	source *source
	cred   vfs.Cred // of the caller that opened the file
	users  atomic.Int64
	ended  atomic.Bool
}

// use begins the use of the file by a call of a caller. It returns false if the
// file is closed, or was opened by another caller, with other rights. Otherwise Done must follow.
func (f *File) use(c *vfs.Cred) bool {
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

// Part returns the part of a file from an offset on: by f, or if f is nil by
// the handle.
func (f *File) Part(h vfs.Handle, off uint64) vfs.Part {
	p := vfs.Part{Handle: h, Offset: off}
	if f != nil {
		p.File = f.File
	}
	return p
}

// Done ends a use of the file. The last one after the file's end closes it.
func (f *File) Done() {
	if f.users.Add(-1) == 0 {
		f.source.forget(f)
		f.File.Close()
	}
}

// end closes the file as soon as no call uses it.
func (f *File) end() {
	if !f.ended.Swap(true) {
		f.Done()
	}
}

// An Open is an object of an export that a client has open, with a File for each
// access, as far as the file system keeps files open. It is safe for concurrent
// use.
type Open struct {
	source      *source
	read, write atomic.Pointer[File]
}

// OpenFile opens an object of the entered export as the call's caller.
func (q *Request) OpenFile(ctx context.Context, h vfs.Handle, access vfs.OpenAccess) (*Open, error) {
	if q.Export.Opener == nil {
		return q.opened(vfs.Opened{}), nil
	}
	o, err := q.Export.Opener.OpenFile(ctx, &q.Cred, h, access)
	if err != nil {
		return nil, err
	}
	return q.opened(o), nil
}

// CreateFile is vfs.FS.Create, and opens the file.
func (q *Request) CreateFile(ctx context.Context, p Place, how vfs.CreateHow, access vfs.OpenAccess) (vfs.Made, *Open, error) {
	if q.Export.Opener == nil {
		made, err := q.Export.FS.Create(ctx, &q.Cred, p.Dir, p.Name, how)
		return made, q.opened(vfs.Opened{}), err
	}
	made, o, err := q.Export.Opener.CreateFile(ctx, &q.Cred, p.Dir, p.Name, how, access)
	return made, q.opened(o), err
}

// Mark returns an Open without Files: it tells whether the entered export has been
// removed.
func (q *Request) Mark() *Open { return &Open{source: q.Export.source} }

func (q *Request) opened(o vfs.Opened) *Open {
	s := q.Export.source
	out := &Open{source: s}
	out.read.Store(q.file(o.Read))
	out.write.Store(q.file(o.Write))
	return out
}

// file makes a File that ends with its export.
func (q *Request) file(v vfs.File) *File {
	if v == nil {
		return nil
	}
	f := &File{File: v, source: q.Export.source, cred: q.Cred}
	f.cred.Groups = slices.Clone(q.Cred.Groups)
	f.users.Store(1)
	f.source.remember(f)
	return f
}

// FileOf returns the File of o for one kind of access, if the call's caller has
// opened it in the call's export. Done must follow. Otherwise FileOf returns
// nil: calls by the handle must do, which check the caller's rights.
func (q *Request) FileOf(o *Open, access vfs.OpenAccess) *File {
	if o == nil || o.source != q.Export.source {
		return nil
	}
	p := &o.read
	if access == vfs.OpenWrite {
		p = &o.write
	}
	if f := p.Load(); f != nil && f.use(&q.Cred) {
		return f
	}
	return nil
}

// Merge gives o the Files of another Open that o does not have. It gives no File
// of another export, with which that File ends.
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

// Narrow takes from o the Files that are not for access, and returns them as
// another Open, or nil if there are none.
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

// Close ends the Files of o. A File that a call uses is closed after that, and
// one of an export that has been removed is closed with the export.
func (o *Open) Close() {
	if !o.source.enter() {
		return
	}
	defer o.source.leave()
	for _, p := range []*atomic.Pointer[File]{&o.read, &o.write} {
		if f := p.Swap(nil); f != nil {
			f.end()
		}
	}
}

// Removed reports whether the export of o has been removed, so that its files
// are closed.
func (o *Open) Removed() bool { return o.source.calls.Load() < 0 }
