package nfsclient

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// FSStat returns the total and free space in an object's file system.
func (c *Client) FSStat(ctx context.Context, object nfs3.FH) (nfs3.FSStatRes, error) {
	k := c.beginCall(nfs3.ProcFSStat)
	defer c.releaseCall(k)
	var res nfs3.FSStatRes
	if err := c.runHandleCall(ctx, k, object); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.resultError()
}

// FSInfo returns the server's limits for an object's file system.
func (c *Client) FSInfo(ctx context.Context, object nfs3.FH) (nfs3.FSInfoRes, error) {
	k := c.beginCall(nfs3.ProcFSInfo)
	defer c.releaseCall(k)
	var res nfs3.FSInfoRes
	if err := c.runHandleCall(ctx, k, object); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.resultError()
}

// PathConf returns the limits on names and links in an object's file system.
func (c *Client) PathConf(ctx context.Context, object nfs3.FH) (nfs3.PathConfRes, error) {
	k := c.beginCall(nfs3.ProcPathConf)
	defer c.releaseCall(k)
	var res nfs3.PathConfRes
	if err := c.runHandleCall(ctx, k, object); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.resultError()
}
