package nfsclient

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// ReadDir lists a part of a directory and calls each for every entry. An entry
// is valid until each returns. eof reports whether this part is the last. each
// must not wait for another call, because the transport may need the memory
// that holds the entries.
func (c *Client) ReadDir(ctx context.Context, a *nfs3.ReadDirArgs, each func(*nfs3.Entry)) (res nfs3.DirRes, eof bool, err error) {
	k := c.beginCall(nfs3.ProcReadDir)
	defer c.releaseCall(k)
	k.x.Args = a.AppendTo(k.x.Args)
	k.x.MaxResults = nfs3.MaxResult(nfs3.ProcReadDir, a.Count)
	return c.runListCall(ctx, k, each)
}

// ReadDirPlus lists a part of a directory like ReadDir, and provides the
// attributes and handles that the server sends.
func (c *Client) ReadDirPlus(ctx context.Context, a *nfs3.ReadDirPlusArgs, each func(*nfs3.Entry)) (res nfs3.DirRes, eof bool, err error) {
	k := c.beginCall(nfs3.ProcReadDirPlus)
	defer c.releaseCall(k)
	k.x.Args = a.AppendTo(k.x.Args)
	k.x.MaxResults = nfs3.MaxResult(nfs3.ProcReadDirPlus, a.MaxCount)
	return c.runListCall(ctx, k, each)
}

// runListCall runs a READDIR or READDIRPLUS call and passes the entries to
// each.
func (c *Client) runListCall(ctx context.Context, k *call, each func(*nfs3.Entry)) (res nfs3.DirRes, eof bool, err error) {
	if err := c.runCall(ctx, k); err != nil {
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
	return res, eof, k.resultError()
}
