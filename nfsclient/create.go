package nfsclient

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Open finds the file at path, or at the end of a symbolic link. NFS knows no
// open files: nothing needs to be closed, and the file may be removed at any
// time.
func (f *FS) Open(ctx context.Context, path string) (*File, error) {
	p, err := f.walk(ctx, path, true)
	if err == nil {
		err = p.regular(nfs3.ProcRead)
	}
	if err != nil {
		return nil, pathError("open", path, err)
	}
	return f.File(p.node.Handle), nil
}

// regular returns the error for an object whose data cannot be had by proc.
func (p *place) regular(proc uint32) error {
	switch p.node.Attr.Type {
	case nfs3.TypeReg:
		return nil
	case nfs3.TypeDir:
		return &Error{Proc: proc, Status: nfs3.ErrIsDir}
	default:
		return &Error{Proc: proc, Status: nfs3.ErrInval}
	}
}

// Create makes the file at path with the given mode, or empties the one that is
// there, at the end of a symbolic link perhaps.
func (f *FS) Create(ctx context.Context, path string, mode uint32) (*File, error) {
	file, err := f.create(ctx, path, mode)
	return file, pathError("create", path, err)
}

func (f *FS) create(ctx context.Context, path string, mode uint32) (*File, error) {
	p, err := f.find(ctx, path, true)
	switch {
	case err != nil:
		return nil, err
	case !p.found() && p.slash:
		return nil, &Error{Proc: nfs3.ProcCreate, Status: nfs3.ErrIsDir}
	case !p.found():
		return f.makeFile(ctx, &nfs3.CreateArgs{
			Where: nfs3.DirOpArgs{Dir: p.dir(), Name: []byte(p.name)},
			Mode:  nfs3.Unchecked,
			Attr:  nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: mode}, Size: nfs3.OptUint64{Set: true}},
		})
	}
	if err := p.regular(nfs3.ProcCreate); err != nil {
		return nil, err
	}
	if p.slash {
		return nil, errNotDir
	}
	file := f.File(p.node.Handle)
	return file, file.Truncate(ctx, 0)
}

// makeFile is CREATE, and LOOKUP where the server left the handle out.
func (f *FS) makeFile(ctx context.Context, a *nfs3.CreateArgs) (*File, error) {
	res, err := f.c.Create(ctx, a)
	if err != nil {
		return nil, err
	}
	n, err := f.made(ctx, &a.Where, &res)
	return f.File(n.Handle), err
}

// made returns the object that was made, with its attributes.
func (f *FS) made(ctx context.Context, where *nfs3.DirOpArgs, res *nfs3.MakeRes) (Node, error) {
	if res.Object == nil {
		return f.lookup(ctx, where.Dir, string(where.Name))
	}
	return f.node(ctx, res.Object, &res.Attr)
}

// CreateNew makes the file at path with the given mode. It fails where there
// is anything at path, and does not where there is the file that an earlier
// transmission of the same call made (RFC 1813, Section 3.3.8, EXCLUSIVE).
func (f *FS) CreateNew(ctx context.Context, path string, mode uint32) (*File, error) {
	where, err := f.where(ctx, path)
	if err != nil {
		return nil, pathError("create", path, err)
	}
	file, err := f.createNew(ctx, where, mode)
	return file, pathError("create", path, err)
}

func (f *FS) createNew(ctx context.Context, where nfs3.DirOpArgs, mode uint32) (*File, error) {
	attr := nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: mode}}
	file, err := f.makeFile(ctx, &nfs3.CreateArgs{Where: where, Mode: nfs3.Exclusive, Verf: randomVerf()})
	if errors.Is(err, nfs3.ErrNotSupp) {
		return f.makeFile(ctx, &nfs3.CreateArgs{Where: where, Mode: nfs3.Guarded, Attr: attr})
	}
	if err != nil {
		return nil, err
	}
	// The server may keep the verifier in the times.
	attr.Atime.How, attr.Mtime.How = nfs3.SetToServerTime, nfs3.SetToServerTime
	return file, file.SetAttr(ctx, attr)
}

// randomVerf returns a createverf3 that no other call has.
func randomVerf() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}
