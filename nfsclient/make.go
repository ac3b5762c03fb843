package nfsclient

import (
	"context"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// Create creates a file.
func (c *Client) Create(ctx context.Context, a *nfs3.CreateArgs) (nfs3.MakeRes, error) {
	k := c.begin(nfs3.ProcCreate)
	defer c.end(k)
	k.x.Args = a.AppendTo(k.x.Args)
	return c.runMake(ctx, k)
}

// runMake is run for procedures whose results are a MakeRes. A server may
// leave the object's handle out (RFC 1813, Section 3.3.8).
func (c *Client) runMake(ctx context.Context, k *call) (nfs3.MakeRes, error) {
	var res nfs3.MakeRes
	if err := c.run(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	res.Object = slices.Clone(res.Object)
	return res, k.outcome()
}

// Mkdir creates a directory.
func (c *Client) Mkdir(ctx context.Context, a *nfs3.MkdirArgs) (nfs3.MakeRes, error) {
	k := c.begin(nfs3.ProcMkdir)
	defer c.end(k)
	k.x.Args = a.AppendTo(k.x.Args)
	return c.runMake(ctx, k)
}

// Symlink creates a symbolic link.
func (c *Client) Symlink(ctx context.Context, a *nfs3.SymlinkArgs) (nfs3.MakeRes, error) {
	k := c.begin(nfs3.ProcSymlink)
	defer c.end(k)
	k.x.Args = a.AppendTo(k.x.Args)
	k.x.Item = a.Path
	return c.runMake(ctx, k)
}

// Mknod creates a device, a socket or a FIFO.
func (c *Client) Mknod(ctx context.Context, a *nfs3.MknodArgs) (nfs3.MakeRes, error) {
	k := c.begin(nfs3.ProcMknod)
	defer c.end(k)
	k.x.Args = a.AppendTo(k.x.Args)
	return c.runMake(ctx, k)
}

// Remove removes name from dir, unless name is a directory. The results
// describe dir.
func (c *Client) Remove(ctx context.Context, dir nfs3.FH, name string) (nfs3.WccData, error) {
	return c.unlink(ctx, nfs3.ProcRemove, dir, name)
}

// Rmdir removes the empty directory name from dir. The results describe dir.
func (c *Client) Rmdir(ctx context.Context, dir nfs3.FH, name string) (nfs3.WccData, error) {
	return c.unlink(ctx, nfs3.ProcRmdir, dir, name)
}

func (c *Client) unlink(ctx context.Context, proc uint32, dir nfs3.FH, name string) (nfs3.WccData, error) {
	k := c.begin(proc)
	defer c.end(k)
	k.x.Args = xdr.AppendString(dir.AppendTo(k.x.Args), name)
	return c.runWcc(ctx, k)
}

// Rename renames an object, possibly to another directory, and replaces any
// object with the new name.
func (c *Client) Rename(ctx context.Context, a *nfs3.RenameArgs) (nfs3.RenameRes, error) {
	k := c.begin(nfs3.ProcRename)
	defer c.end(k)
	k.x.Args = a.AppendTo(k.x.Args)
	var res nfs3.RenameRes
	if err := c.run(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.outcome()
}

// Link gives an object an additional name.
func (c *Client) Link(ctx context.Context, a *nfs3.LinkArgs) (nfs3.LinkRes, error) {
	k := c.begin(nfs3.ProcLink)
	defer c.end(k)
	k.x.Args = a.AppendTo(k.x.Args)
	var res nfs3.LinkRes
	if err := c.run(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.outcome()
}
