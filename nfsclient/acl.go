package nfsclient

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
)

// GetACL calls GETACL of NFSACL version 3, which servers offer on NFS's own
// port. The error is oncrpc.ErrProgUnavail or another oncrpc.ReplyError if the
// server lacks the program.
func (c *Client) GetACL(ctx context.Context, a *nfsacl.GetACLArgs) (nfsacl.GetACLRes, error) {
	k := c.beginCall(nfs3.ProcNull)
	defer c.releaseCall(k)
	k.x.Prog, k.x.Vers, k.x.Proc = nfsacl.Program, nfsacl.Version, nfsacl.ProcGetACL
	k.x.MaxResults = nfsacl.MaxResult(nfsacl.ProcGetACL)
	k.x.Args = a.AppendTo(k.x.Args)
	var res nfsacl.GetACLRes
	if err := c.runCall(ctx, k); err != nil {
		return res, err
	}
	res.Decode(&k.x.Results)
	return res, k.resultError()
}
