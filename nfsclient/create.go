package nfsclient

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Open finds the file at path, and follows symbolic links. NFS knows no open
// files: a File needs no closing, and the file may be removed at any time.
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

// regular returns the error of proc for an object that is not a regular file.
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

// Create creates the file at path with the given mode, or empties an existing
// file. It follows symbolic links.
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

// makeFile is CREATE, and LOOKUP if the server left the handle out.
func (f *FS) makeFile(ctx context.Context, a *nfs3.CreateArgs) (*File, error) {
	res, err := f.c.Create(ctx, a)
	if err != nil {
		return nil, err
	}
	n, err := f.made(ctx, &a.Where, &res)
	return f.File(n.Handle), err
}

// made returns the created object with its attributes.
func (f *FS) made(ctx context.Context, where *nfs3.DirOpArgs, res *nfs3.MakeRes) (Node, error) {
	if err := f.c.complete(ctx, where, res); err != nil {
		return Node{}, err
	}
	return f.node(ctx, res.Object, &res.Attr)
}

// complete looks up the created object if the server left its handle out.
func (c *Client) complete(ctx context.Context, where *nfs3.DirOpArgs, res *nfs3.MakeRes) error {
	if res.Object != nil {
		return nil
	}
	found, err := c.Lookup(ctx, where.Dir, string(where.Name))
	res.Object, res.Attr = found.Object, found.ObjAttr
	return err
}

// CreateNew creates the file at path with the given mode. It fails if anything
// exists at path, except the file that an earlier transmission of the same call
// created (RFC 1813, Section 3.3.8, EXCLUSIVE).
func (f *FS) CreateNew(ctx context.Context, path string, mode uint32) (*File, error) {
	where, err := f.where(ctx, path)
	if err != nil {
		return nil, pathError("create", path, err)
	}
	file, err := f.createNew(ctx, where, mode)
	return file, pathError("create", path, err)
}

func (f *FS) createNew(ctx context.Context, where nfs3.DirOpArgs, mode uint32) (*File, error) {
	res, err := f.c.CreateNew(ctx, where, nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: mode}})
	if err != nil {
		return nil, err
	}
	n, err := f.made(ctx, &where, &res)
	return f.File(n.Handle), err
}

// CreateNew creates a file with the given attributes, and fails if the name
// exists: EXCLUSIVE, as FS.CreateNew, then SETATTR. A server may keep the
// verifier in the times; unless attr has others, they therefore become the
// server's present time. Without an error the results hold the handle and, if
// the server sent them, the file's final attributes.
//
// If the server does not support EXCLUSIVE, CreateNew uses GUARDED: then a call
// that was transmitted twice may fail although it created the file.
func (c *Client) CreateNew(ctx context.Context, where nfs3.DirOpArgs, attr nfs3.SetAttr) (nfs3.MakeRes, error) {
	res, err := c.Create(ctx, &nfs3.CreateArgs{Where: where, Mode: nfs3.Exclusive, Verf: randomVerf()})
	guarded := errors.Is(err, nfs3.ErrNotSupp)
	if guarded {
		res, err = c.Create(ctx, &nfs3.CreateArgs{Where: where, Mode: nfs3.Guarded, Attr: attr})
	}
	if err == nil {
		err = c.complete(ctx, &where, &res)
	}
	if guarded || err != nil {
		return res, err
	}
	for _, t := range []*nfs3.SetTime{&attr.Atime, &attr.Mtime} {
		if t.How == nfs3.DontChange {
			t.How = nfs3.SetToServerTime
		}
	}
	wcc, err := c.SetAttr(ctx, &nfs3.SetAttrArgs{Object: res.Object, Attr: attr})
	res.Attr = wcc.After
	return res, err
}

// randomVerf returns a createverf3 that no other call uses.
func randomVerf() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}
