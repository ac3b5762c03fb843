package bridge

import (
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// xidLen is the XID's length, which the exchange itself prepends to a call's bytes.
const xidLen = 4

// planExchange turns x into the call c, whose message is msg, and describes the
// possible replies: which parts of both are DDP-eligible, and the results' maximum
// length (RFC 8267, Section 4.1). Call parts that do not decode are forwarded
// unchanged, and the server rejects them.
func planExchange(x *oncrpc.Exchange, c *oncrpc.Call, msg []byte, rep *oncrpc.Reply) {
	*x = oncrpc.Exchange{
		Prog: c.Prog, Vers: c.Vers, Proc: c.Proc,
		Relay: true, Args: msg[xidLen:],
	}
	switch {
	case c.Args.Err() != nil: // the server reports the error, in a short reply
	case isSigned(c):
		x.MaxResults = sealedResults(c)
	case c.Prog == nfs3.Program:
		planNFS(x, c, msg, rep)
	case c.Prog == mount3.Program:
		x.MaxResults = mountResults(c.Proc)
	default:
		x.MaxResults = unknownResults
	}
}

// reserveReply waits for the memory for a long reply to x before the call's turn,
// as for a data item's memory. Otherwise calls with a turn could wait for memory
// that waiting calls hold. NewItem counts the memory that a transport lends for a
// reply until the reply has been sent. Reserve would also keep a buffer, but the
// reply arrives in its own buffer.
func reserveReply(x *oncrpc.Exchange, rep *oncrpc.Reply) {
	if n := oncrpc.MaxReplyHeader + x.MaxResults; x.Sink == nil && n > copyLimit {
		rep.NewItem(n)
		rep.DropItem()
	}
}

// planNFS plans an NFSv3 call. The client's own limits in a call are upper bounds
// for any server's results.
func planNFS(x *oncrpc.Exchange, c *oncrpc.Call, msg []byte, rep *oncrpc.Reply) {
	var ulb nfs3.Binding
	begin := c.Args.Offset()
	args := msg[begin:]
	rest, item := ulb.MaxResults(c.Proc, args)
	x.MaxResults = min(rest, maxPayload)
	if item > 0 {
		x.Sink = rep.NewItem(min(item, maxPayload))
	}
	// The item is the last argument, followed by its padding.
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
			return nfs3.MaxResult(c.Proc, sealedPayload) + sealOverhead
		}
	}
	return unknownResults
}

// mountResults bounds the results from MOUNT's procedures, whose numbers are the
// same in all versions.
func mountResults(proc uint32) int {
	switch proc {
	case mount3.ProcDump, mount3.ProcExport:
		return maxList
	}
	return mountResultsSize
}
