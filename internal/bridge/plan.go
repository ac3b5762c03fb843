package bridge

import (
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// xidLen is what the exchange puts in front of a call's bytes itself.
const xidLen = 4

// plan makes x the call c, whose message is msg, and says what its reply may
// become: what of both may travel apart, and how long the results can be (RFC
// 8267, Section 4.1). What of a call cannot be read goes as it is, for the server
// to refuse.
func plan(x *oncrpc.Exchange, c *oncrpc.Call, msg []byte, rep *oncrpc.Reply) {
	*x = oncrpc.Exchange{
		Prog: c.Prog, Vers: c.Vers, Proc: c.Proc,
		Relay: true, Args: msg[xidLen:],
	}
	switch {
	case c.Args.Err() != nil: // the server says what is wrong, in a few words
	case c.Cred.Flavor == rpcmsg.AuthGSS:
		x.MaxResults = sealedResults(c)
	case c.Prog == nfs3.Program:
		planNFS(x, c, msg, rep)
	case c.Prog == mount3.Program:
		x.MaxResults = mountResults(c.Proc)
	default:
		x.MaxResults = unknownResults
	}
}

// reserve waits for the memory that a long reply to x takes, as that of a data item
// has been waited for: before the call's turn. Else calls that have their turns
// could wait for those that have the memory, and they for a turn. What a transport
// lends for a reply it counts until that has left. Reserve would keep a buffer too,
// and the reply comes in one of its own.
func reserve(x *oncrpc.Exchange, rep *oncrpc.Reply) {
	if n := oncrpc.MaxReplyHeader + x.MaxResults; x.Sink == nil && n > copied {
		rep.NewItem(n)
		rep.DropItem()
	}
}

// planNFS is plan for NFS version 3. What a client says that it takes is more
// than any server sends.
func planNFS(x *oncrpc.Exchange, c *oncrpc.Call, msg []byte, rep *oncrpc.Reply) {
	var ulb nfs3.Binding
	begin := c.Args.Offset()
	args := msg[begin:]
	rest, item := ulb.MaxResults(c.Proc, args)
	x.MaxResults = min(rest, MaxPayload)
	if item > 0 {
		x.Sink = rep.NewItem(min(item, MaxPayload))
	}
	// It is the last of the arguments, with its padding.
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

// mountResults bounds the results of procedures of MOUNT, whose first versions
// have the same numbers for them.
func mountResults(proc uint32) int {
	switch proc {
	case mount3.ProcDump, mount3.ProcExport:
		return longList
	}
	return shortResults
}
