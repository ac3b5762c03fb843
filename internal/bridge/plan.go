package bridge

import (
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// xidLen is the length of the XID, which the exchange itself puts in front of a
// call's bytes.
const xidLen = 4

// plan turns x into the call c, whose message is msg, and describes the
// possible replies: which parts of both may travel apart, and the longest
// results (RFC 8267, Section 4.1). Parts of a call that do not decode go
// unchanged, and the server refuses them.
func plan(x *oncrpc.Exchange, c *oncrpc.Call, msg []byte, rep *oncrpc.Reply) {
	*x = oncrpc.Exchange{
		Prog: c.Prog, Vers: c.Vers, Proc: c.Proc,
		Relay: true, Args: msg[xidLen:],
	}
	switch {
	case c.Args.Err() != nil: // the server reports the error, in a short reply
	case signed(c):
		x.MaxResults = sealedResults(c)
	case c.Prog == nfs3.Program:
		planNFS(x, c, msg, rep)
	case c.Prog == mount3.Program:
		x.MaxResults = mountResults(c.Proc)
	default:
		x.MaxResults = unknownResults
	}
}

// reserve waits for the memory of a long reply to x before the call's turn, as
// for the memory of a data item. Otherwise calls with a turn could wait for
// memory that waiting calls hold. NewItem counts the memory that a transport
// lends for a reply until the reply has left. Reserve would also keep a buffer,
// but the reply arrives in its own buffer.
func reserve(x *oncrpc.Exchange, rep *oncrpc.Reply) {
	if n := oncrpc.MaxReplyHeader + x.MaxResults; x.Sink == nil && n > copied {
		rep.NewItem(n)
		rep.DropItem()
	}
}

// planNFS is plan for NFS version 3. The client's own limits in a call exceed
// the results of any server.
func planNFS(x *oncrpc.Exchange, c *oncrpc.Call, msg []byte, rep *oncrpc.Reply) {
	var ulb nfs3.Binding
	begin := c.Args.Offset()
	args := msg[begin:]
	rest, item := ulb.MaxResults(c.Proc, args)
	x.MaxResults = min(rest, MaxPayload)
	if item > 0 {
		x.Sink = rep.NewItem(min(item, MaxPayload))
	}
	// The item is the last of the arguments, with its padding.
	if start, n := ulb.ArgItem(c.Proc, args); n > 0 && start+n+xdr.Pad(n) == len(args) {
		pos := begin + start
		x.Args, x.Item = msg[xidLen:pos], msg[pos:pos+n]
	}
}

// sealedResults bounds the results of a call whose arguments cannot be read.
// NULL sets up a context.
func sealedResults(c *oncrpc.Call) int {
	if c.Prog == nfs3.Program {
		switch c.Proc {
		case nfs3.ProcRead, nfs3.ProcReadDir, nfs3.ProcReadDirPlus:
			return nfs3.MaxResult(c.Proc, sealedPayload) + sealRoom
		}
	}
	return unknownResults
}

// mountResults bounds the results of MOUNT's procedures, whose numbers are the
// same in all versions.
func mountResults(proc uint32) int {
	switch proc {
	case mount3.ProcDump, mount3.ProcExport:
		return longList
	}
	return shortResults
}
