package nfsclient

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Open finds the file at path, and follows symbolic links. NFS version 3 has no
// open state: a File need not be closed, and the file may be removed at any
// time.
func (f *FS) Open(ctx context.Context, path string) (*File, error) {
	p, err := f.walkPath(ctx, path, true)
	if err == nil {
		err = p.checkRegular(nfs3.ProcRead)
	}
	if err != nil {
		return nil, pathError("open", path, err)
	}
	return f.File(p.node.Handle), nil
}

// checkRegular returns an error for proc unless the object is a regular file.
func (p *foundPath) checkRegular(proc uint32) error {
	switch p.node.Attr.Type {
	case nfs3.TypeReg:
		return nil
	case nfs3.TypeDir:
		return &Error{Proc: proc, Status: nfs3.ErrIsDir}
	default:
		return &Error{Proc: proc, Status: nfs3.ErrInval}
	}
}

// Create creates the file at path with the given mode, or truncates an existing
// file. It follows symbolic links.
func (f *FS) Create(ctx context.Context, path string, mode uint32) (*File, error) {
	file, err := f.createOrTruncate(ctx, path, mode)
	return file, pathError("create", path, err)
}

func (f *FS) createOrTruncate(ctx context.Context, path string, mode uint32) (*File, error) {
	p, err := f.findPath(ctx, path, true)
	switch {
	case err != nil:
		return nil, err
	case !p.nameExists() && p.trailingSlash:
		return nil, &Error{Proc: nfs3.ProcCreate, Status: nfs3.ErrIsDir}
	case !p.nameExists():
		return f.createFile(ctx, &nfs3.CreateArgs{
			Where: nfs3.DirOpArgs{Dir: p.parentDir(), Name: []byte(p.name)},
			Mode:  nfs3.Unchecked,
			Attr:  nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: mode}, Size: nfs3.OptUint64{Set: true}},
		})
	}
	if err := p.checkRegular(nfs3.ProcCreate); err != nil {
		return nil, err
	}
	if p.trailingSlash {
		return nil, errNotDir
	}
	file := f.File(p.node.Handle)
	return file, file.Truncate(ctx, 0)
}

// createFile calls CREATE, and LOOKUP if the server left out the handle.
func (f *FS) createFile(ctx context.Context, a *nfs3.CreateArgs) (*File, error) {
	res, err := f.c.Create(ctx, a)
	if err != nil {
		return nil, err
	}
	n, err := f.completeNode(ctx, &a.Where, &res)
	return f.File(n.Handle), err
}

// completeNode returns the created object with its attributes.
func (f *FS) completeNode(ctx context.Context, where *nfs3.DirOpArgs, res *nfs3.MakeRes) (Node, error) {
	if err := f.c.lookUpMissingHandle(ctx, where, res); err != nil {
		return Node{}, err
	}
	return f.nodeWithAttr(ctx, res.Object, &res.Attr)
}

// lookUpMissingHandle looks up the created object if the server left out its
// handle.
func (c *Client) lookUpMissingHandle(ctx context.Context, where *nfs3.DirOpArgs, res *nfs3.MakeRes) error {
	if res.Object != nil {
		return nil
	}
	found, err := c.Lookup(ctx, where.Dir, string(where.Name))
	res.Object, res.Attr = found.Object, found.ObjAttr
	return err
}

// CreateNew creates the file at path with the given mode. It fails if anything
// exists at path, except a file that an earlier transmission of the same call
// created (RFC 1813, Section 3.3.8, EXCLUSIVE).
func (f *FS) CreateNew(ctx context.Context, path string, mode uint32) (*File, error) {
	where, err := f.newDirOpArgs(ctx, path)
	if err != nil {
		return nil, pathError("create", path, err)
	}
	file, err := f.createExclusive(ctx, where, mode)
	return file, pathError("create", path, err)
}

func (f *FS) createExclusive(ctx context.Context, where nfs3.DirOpArgs, mode uint32) (*File, error) {
	res, err := f.c.CreateNew(ctx, where, nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: mode}})
	if err != nil {
		return nil, err
	}
	n, err := f.completeNode(ctx, &where, &res)
	return f.File(n.Handle), err
}

// CreateNew creates a file with the given attributes, and fails if the name
// exists. It calls CREATE with EXCLUSIVE, then SETATTR. A server may store the
// verifier in the times; unless attr sets them, they therefore become the
// server's current time. If there is no error, the results hold the handle and,
// if the server sent them, the file's final attributes.
//
// If the server does not support EXCLUSIVE, CreateNew uses GUARDED. Then a call
// that was transmitted twice may fail although it created the file.
func (c *Client) CreateNew(ctx context.Context, where nfs3.DirOpArgs, attr nfs3.SetAttr) (nfs3.MakeRes, error) {
	res, err := c.Create(ctx, &nfs3.CreateArgs{Where: where, Mode: nfs3.Exclusive, Verf: randomVerf()})
	guarded := errors.Is(err, nfs3.ErrNotSupp)
	if guarded {
		res, err = c.Create(ctx, &nfs3.CreateArgs{Where: where, Mode: nfs3.Guarded, Attr: attr})
	}
	if err == nil {
		err = c.lookUpMissingHandle(ctx, &where, &res)
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
