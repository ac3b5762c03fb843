package nfsclient

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// ReadDir lists a part of a directory and calls each for its entries. An entry
// is valid until each returns. eof reports whether the directory ends there
// too. each must not wait for another call: the transport may need the memory
// of the entries.
func (c *Client) ReadDir(ctx context.Context, a *nfs3.ReadDirArgs, each func(*nfs3.Entry)) (res nfs3.DirRes, eof bool, err error) {
	k := c.begin(nfs3.ProcReadDir)
	defer c.end(k)
	k.x.Args = a.AppendTo(k.x.Args)
	k.x.MaxResults = nfs3.MaxResult(nfs3.ProcReadDir, a.Count)
	return c.runList(ctx, k, each)
}

// ReadDirPlus is ReadDir for entries with attributes and handles, as far as the
// server provides them.
func (c *Client) ReadDirPlus(ctx context.Context, a *nfs3.ReadDirPlusArgs, each func(*nfs3.Entry)) (res nfs3.DirRes, eof bool, err error) {
	k := c.begin(nfs3.ProcReadDirPlus)
	defer c.end(k)
	k.x.Args = a.AppendTo(k.x.Args)
	k.x.MaxResults = nfs3.MaxResult(nfs3.ProcReadDirPlus, a.MaxCount)
	return c.runList(ctx, k, each)
}

// runList is run for both.
func (c *Client) runList(ctx context.Context, k *call, each func(*nfs3.Entry)) (res nfs3.DirRes, eof bool, err error) {
	if err := c.run(ctx, k); err != nil {
		return res, false, err
	}
	r := &k.x.Results
	res.Decode(r)
	if r.Err() == nil && res.Status == nfs3.OK {
		d := nfs3.DirReader{R: r, Plus: k.x.Proc == nfs3.ProcReadDirPlus}
		for e := (nfs3.Entry{}); d.Next(&e); {
			each(&e)
		}
		eof = d.EOF
	}
	return res, eof, k.outcome()
}
