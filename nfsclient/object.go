package nfsclient

import (
	"context"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// Null calls NULL, which does nothing, with AUTH_NONE.
func (c *Client) Null(ctx context.Context) error {
	k := c.beginCall(nfs3.ProcNull)
	defer c.releaseCall(k)
	k.x.Cred = rpcmsg.Cred{Flavor: rpcmsg.AuthNone}
	if err := c.caller.Call(ctx, &k.x); err != nil {
		return fmt.Errorf("NULL: %w", err)
	}
	return nil
}

// GetAttr returns an object's attributes.
func (c *Client) GetAttr(ctx context.Context, object nfs3.FH) (nfs3.Attr, error) {
	k := c.beginCall(nfs3.ProcGetAttr)
	defer c.releaseCall(k)
	var res nfs3.GetAttrRes
	if err := c.runHandleCall(ctx, k, object); err != nil {
		return res.Attr, err
	}
	res.Decode(&k.x.Results)
	return res.Attr, k.resultError()
}

// runHandleCall runs a call whose only argument is a file handle.
func (c *Client) runHandleCall(ctx context.Context, k *call, object nfs3.FH) error {
	a := nfs3.HandleArgs{Object: object}
	k.x.Args = a.AppendTo(k.x.Args)
	return c.runCall(ctx, k)
}

// SetAttr changes an object's attributes.
func (c *Client) SetAttr(ctx context.Context, a *nfs3.SetAttrArgs) (nfs3.WccData, error) {
	k := c.beginCall(nfs3.ProcSetAttr)
	defer c.releaseCall(k)
	k.x.Args = a.AppendTo(k.x.Args)
	return c.runWccCall(ctx, k)
}

// runWccCall runs a call whose results are a WccRes.
func (c *Client) runWccCall(ctx context.Context, k *call) (nfs3.WccData, error) {
	var res nfs3.WccRes
	if err := c.runCall(ctx, k); err != nil {
		return res.Wcc, err
	}
	res.Decode(&k.x.Results)
	return res.Wcc, k.resultError()
}

// Lookup finds name in dir.
func (c *Client) Lookup(ctx context.Context, dir nfs3.FH, name string) (nfs3.LookupRes, error) {
	k := c.beginCall(nfs3.ProcLookup)
	defer c.releaseCall(k)
	k.x.Args = xdr.AppendString(dir.AppendTo(k.x.Args), name)
	var res nfs3.LookupRes
	if err := c.runCall(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	res.Object = slices.Clone(res.Object)
	return res, k.resultError()
}

// Access queries which of rights (nfs3.AccessRead and so on) the caller has to
// an object.
func (c *Client) Access(ctx context.Context, object nfs3.FH, rights uint32) (nfs3.AccessRes, error) {
	k := c.beginCall(nfs3.ProcAccess)
	defer c.releaseCall(k)
	a := nfs3.AccessArgs{Object: object, Access: rights}
	k.x.Args = a.AppendTo(k.x.Args)
	var res nfs3.AccessRes
	if err := c.runCall(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.resultError()
}

// ReadLink returns the path in a symbolic link, at most nfs3.MaxPath bytes.
func (c *Client) ReadLink(ctx context.Context, link nfs3.FH) (nfs3.ReadLinkRes, error) {
	k := c.beginCall(nfs3.ProcReadLink)
	defer c.releaseCall(k)
	sink := buf.Default.Get(nfs3.MaxPath)
	defer sink.Release()
	k.x.Sink = sink.B
	var res nfs3.ReadLinkRes
	if err := c.runHandleCall(ctx, k, link); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	res.Path = slices.Clone(res.Path)
	return res, k.resultError()
}
