package nfsclient

import (
	"context"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Create creates a file.
func (c *Client) Create(ctx context.Context, a *nfs3.CreateArgs) (nfs3.MakeRes, error) {
	k := c.beginCall(nfs3.ProcCreate)
	defer c.releaseCall(k)
	k.x.Args = a.AppendTo(k.x.Args)
	return c.runMakeCall(ctx, k)
}

// runMakeCall runs a call whose results are a MakeRes. A server may leave out
// the object's handle (RFC 1813, Section 3.3.8).
func (c *Client) runMakeCall(ctx context.Context, k *call) (nfs3.MakeRes, error) {
	var res nfs3.MakeRes
	if err := c.runCall(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	res.Object = slices.Clone(res.Object)
	return res, k.resultError()
}

// Mkdir creates a directory.
func (c *Client) Mkdir(ctx context.Context, a *nfs3.MkdirArgs) (nfs3.MakeRes, error) {
	k := c.beginCall(nfs3.ProcMkdir)
	defer c.releaseCall(k)
	k.x.Args = a.AppendTo(k.x.Args)
	return c.runMakeCall(ctx, k)
}

// Symlink creates a symbolic link.
func (c *Client) Symlink(ctx context.Context, a *nfs3.SymlinkArgs) (nfs3.MakeRes, error) {
	k := c.beginCall(nfs3.ProcSymlink)
	defer c.releaseCall(k)
	k.x.Args = a.AppendTo(k.x.Args)
	k.x.Item = a.Path
	return c.runMakeCall(ctx, k)
}

// Mknod creates a device, a socket or a FIFO.
func (c *Client) Mknod(ctx context.Context, a *nfs3.MknodArgs) (nfs3.MakeRes, error) {
	k := c.beginCall(nfs3.ProcMknod)
	defer c.releaseCall(k)
	k.x.Args = a.AppendTo(k.x.Args)
	return c.runMakeCall(ctx, k)
}

// Remove removes name from dir, unless name is a directory. The results
// describe dir.
func (c *Client) Remove(ctx context.Context, dir nfs3.FH, name string) (nfs3.WccData, error) {
	return c.removeName(ctx, nfs3.ProcRemove, dir, name)
}

// Rmdir removes the empty directory name from dir. The results describe dir.
func (c *Client) Rmdir(ctx context.Context, dir nfs3.FH, name string) (nfs3.WccData, error) {
	return c.removeName(ctx, nfs3.ProcRmdir, dir, name)
}

func (c *Client) removeName(ctx context.Context, proc uint32, dir nfs3.FH, name string) (nfs3.WccData, error) {
	k := c.beginCall(proc)
	defer c.releaseCall(k)
	k.x.Args = xdr.AppendString(dir.AppendTo(k.x.Args), name)
	return c.runWccCall(ctx, k)
}

// Rename renames an object, possibly to another directory, and replaces any
// object with the new name.
func (c *Client) Rename(ctx context.Context, a *nfs3.RenameArgs) (nfs3.RenameRes, error) {
	k := c.beginCall(nfs3.ProcRename)
	defer c.releaseCall(k)
	k.x.Args = a.AppendTo(k.x.Args)
	var res nfs3.RenameRes
	if err := c.runCall(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.resultError()
}

// Link gives an object an additional name.
func (c *Client) Link(ctx context.Context, a *nfs3.LinkArgs) (nfs3.LinkRes, error) {
	k := c.beginCall(nfs3.ProcLink)
	defer c.releaseCall(k)
	k.x.Args = a.AppendTo(k.x.Args)
	var res nfs3.LinkRes
	if err := c.runCall(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.resultError()
}
