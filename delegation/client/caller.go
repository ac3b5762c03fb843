package client

import (
	"context"
	"hash/crc32"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// lineIndex returns the index of the line that serves a handle.
func lineIndex(fh []byte, lines int) int {
	return int(crc32.ChecksumIEEE(fh) % uint32(lines))
}

// A Caller sends a mount's calls over several lines (oncrpc.Caller). A lost
// segment or a busy processor then delays only one line. If a call depends on
// another, its caller waits for the other's reply anyway, so the order between
// lines does not matter.
//
// A call that changes an object uses the line for the handle at the start of
// its arguments, if that line may hold delegations: the server does not recall
// delegations on the connection that makes the change. Calls that are bound to
// a connection use the first line, and other calls use the lines in rotation.
type Caller struct {
	set      *Set
	lines    []oncrpc.Caller
	lastLine atomic.Uint32
}

// Caller returns a Caller for lines, in the order in which the Set's
// Attachments were created. If s is nil, all calls use the lines in rotation.
func (s *Set) Caller(lines ...oncrpc.Caller) *Caller { return &Caller{set: s, lines: lines} }

// Call implements oncrpc.Caller.
func (c *Caller) Call(ctx context.Context, x *oncrpc.Exchange) error {
	return c.lines[c.routeCall(x)].Call(ctx, x)
}

func (c *Caller) routeCall(x *oncrpc.Exchange) int {
	n := len(c.lines)
	if n == 1 {
		return 0
	}
	if _, bound := x.Signer.(oncrpc.BoundSigner); bound {
		return 0 // the next attempt must find the same connection
	}
	if c.set != nil && isChange(x) {
		r := xdr.NewReader(x.Args)
		if fh := r.Opaque(delegation.MaxHandle); r.Err() == nil {
			if i := lineIndex(fh, n); c.set.attachments[i].usableConn() != nil {
				return i
			}
		}
	}
	return int(c.lastLine.Add(1) % uint32(n))
}

// Numbers for NFS version 3 (RFC 1813) and NFSACL, the companion protocol that
// sets access control lists.
const (
	nfsProgram = 100003
	nfsVersion = 3
	aclProgram = 100227
	aclVersion = 3
	procSetACL = 2
)

// nfsChanges is the set of procedures that change the object named by their
// first argument: SETATTR, and WRITE to LINK.
const nfsChanges = 1<<2 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<14 | 1<<15

// isChange reports whether a call changes an object.
func isChange(x *oncrpc.Exchange) bool {
	switch {
	case x.Relay:
		return false
	case x.Prog == nfsProgram && x.Vers == nfsVersion:
		return x.Proc < 32 && nfsChanges>>x.Proc&1 == 1
	}
	return x.Prog == aclProgram && x.Vers == aclVersion && x.Proc == procSetACL
}
