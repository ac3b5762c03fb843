package nfsclient

import (
	"context"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// Null calls NULL, which does nothing, with AUTH_NONE.
func (c *Client) Null(ctx context.Context) error {
	k := c.begin(nfs3.ProcNull)
	defer c.end(k)
	k.x.Cred = rpcmsg.Cred{Flavor: rpcmsg.AuthNone}
	if err := c.caller.Call(ctx, &k.x); err != nil {
		return fmt.Errorf("NULL: %w", err)
	}
	return nil
}

// GetAttr returns an object's attributes.
func (c *Client) GetAttr(ctx context.Context, object nfs3.FH) (nfs3.Attr, error) {
	k := c.begin(nfs3.ProcGetAttr)
	defer c.end(k)
	var res nfs3.GetAttrRes
	if err := c.runOn(ctx, k, object); err != nil {
		return res.Attr, err
	}
	res.Decode(&k.x.Results)
	return res.Attr, k.outcome()
}

// runOn is run for procedures whose arguments are an object.
func (c *Client) runOn(ctx context.Context, k *call, object nfs3.FH) error {
	a := nfs3.HandleArgs{Object: object}
	k.x.Args = a.AppendTo(k.x.Args)
	return c.run(ctx, k)
}

// SetAttr changes an object's attributes.
func (c *Client) SetAttr(ctx context.Context, a *nfs3.SetAttrArgs) (nfs3.WccData, error) {
	k := c.begin(nfs3.ProcSetAttr)
	defer c.end(k)
	k.x.Args = a.AppendTo(k.x.Args)
	return c.runWcc(ctx, k)
}

// runWcc is run for procedures whose results are a WccRes.
func (c *Client) runWcc(ctx context.Context, k *call) (nfs3.WccData, error) {
	var res nfs3.WccRes
	if err := c.run(ctx, k); err != nil {
		return res.Wcc, err
	}
	res.Decode(&k.x.Results)
	return res.Wcc, k.outcome()
}

// Lookup finds name in dir.
func (c *Client) Lookup(ctx context.Context, dir nfs3.FH, name string) (nfs3.LookupRes, error) {
	k := c.begin(nfs3.ProcLookup)
	defer c.end(k)
	k.x.Args = xdr.AppendString(dir.AppendTo(k.x.Args), name)
	var res nfs3.LookupRes
	if err := c.run(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	res.Object = slices.Clone(res.Object)
	return res, k.outcome()
}

// Access asks which of rights (nfs3.AccessRead and so on) the caller has to an
// object.
func (c *Client) Access(ctx context.Context, object nfs3.FH, rights uint32) (nfs3.AccessRes, error) {
	k := c.begin(nfs3.ProcAccess)
	defer c.end(k)
	a := nfs3.AccessArgs{Object: object, Access: rights}
	k.x.Args = a.AppendTo(k.x.Args)
	var res nfs3.AccessRes
	if err := c.run(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.outcome()
}

// ReadLink returns the path in a symbolic link, at most nfs3.MaxPath bytes.
func (c *Client) ReadLink(ctx context.Context, link nfs3.FH) (nfs3.ReadLinkRes, error) {
	k := c.begin(nfs3.ProcReadLink)
	defer c.end(k)
	sink := buf.Default.Get(nfs3.MaxPath)
	defer sink.Release()
	k.x.Sink = sink.B
	var res nfs3.ReadLinkRes
	if err := c.runOn(ctx, k, link); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	res.Path = slices.Clone(res.Path)
	return res, k.outcome()
}
