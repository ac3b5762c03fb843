package nfsclient

import (
	"context"
	"fmt"
	"math"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// maxItem is the maximum number of bytes that one READ or WRITE can report.
const maxItem = math.MaxInt32

// Read reads at most len(p) bytes from a file at offset off into p, in one
// call. The results' Data is the filled part of p; the rest of p is undefined.
func (c *Client) Read(ctx context.Context, file nfs3.FH, off uint64, p []byte) (nfs3.ReadRes, error) {
	k := c.beginCall(nfs3.ProcRead)
	defer c.releaseCall(k)
	p = p[:min(len(p), maxItem)]
	a := nfs3.ReadArgs{File: file, Offset: off, Count: uint32(len(p))}
	k.x.Args = a.AppendTo(k.x.Args)
	k.x.Sink, k.x.Locate = p, nfs3.LocateRead
	var res nfs3.ReadRes
	if err := c.runCall(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	if len(res.Data) > len(p) {
		k.x.Results.Fail(fmt.Errorf("%w: %d bytes read, %d requested", xdr.ErrValue, len(res.Data), len(p)))
		res.Data = nil
	}
	n := len(res.Data)
	if n > 0 && &res.Data[0] != &p[0] {
		copy(p, res.Data)
	}
	res.Data = p[:n:n]
	return res, k.resultError()
}

// Write writes p to a file at offset off, in one call. The results' Count is
// the number of bytes that the server accepted, which may be less than len(p).
// Committed is their stability, which may exceed how.
func (c *Client) Write(ctx context.Context, file nfs3.FH, off uint64, p []byte, how nfs3.Stable) (nfs3.WriteRes, error) {
	k := c.beginCall(nfs3.ProcWrite)
	defer c.releaseCall(k)
	p = p[:min(len(p), maxItem)]
	a := nfs3.WriteArgs{File: file, Offset: off, Stable: how, Data: p}
	k.x.Args = a.AppendTo(k.x.Args)
	k.x.Item = p
	var res nfs3.WriteRes
	if err := c.runCall(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	if int64(res.Count) > int64(len(p)) {
		k.x.Results.Fail(fmt.Errorf("%w: %d bytes written of %d", xdr.ErrValue, res.Count, len(p)))
	}
	return res, k.resultError()
}

// Commit puts the data in a range of a file on stable storage; count 0 means to
// the end. Data that were written under another write verifier than the one in
// the results may be lost.
func (c *Client) Commit(ctx context.Context, file nfs3.FH, off uint64, count uint32) (nfs3.CommitRes, error) {
	k := c.beginCall(nfs3.ProcCommit)
	defer c.releaseCall(k)
	a := nfs3.CommitArgs{File: file, Offset: off, Count: count}
	k.x.Args = a.AppendTo(k.x.Args)
	var res nfs3.CommitRes
	if err := c.runCall(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.resultError()
}
