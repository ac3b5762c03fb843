package nfsclient

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// FSStat returns the total and free space of an object's file system.
func (c *Client) FSStat(ctx context.Context, object nfs3.FH) (nfs3.FSStatRes, error) {
	k := c.begin(nfs3.ProcFSStat)
	defer c.end(k)
	var res nfs3.FSStatRes
	if err := c.runOn(ctx, k, object); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.outcome()
}

// FSInfo returns the limits of the server for the file system of an object.
func (c *Client) FSInfo(ctx context.Context, object nfs3.FH) (nfs3.FSInfoRes, error) {
	k := c.begin(nfs3.ProcFSInfo)
	defer c.end(k)
	var res nfs3.FSInfoRes
	if err := c.runOn(ctx, k, object); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.outcome()
}

// PathConf returns the limits of names and links of the file system of an
// object.
func (c *Client) PathConf(ctx context.Context, object nfs3.FH) (nfs3.PathConfRes, error) {
	k := c.begin(nfs3.ProcPathConf)
	defer c.end(k)
	var res nfs3.PathConfRes
	if err := c.runOn(ctx, k, object); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.outcome()
}
