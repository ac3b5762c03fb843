package client

import (
	"context"
	"hash/crc32"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// Pick returns which of so many lines stands for a handle.
func Pick(fh []byte, lines int) int {
	return int(crc32.ChecksumIEEE(fh) % uint32(lines))
}

// A Caller makes the calls of a mount over several lines (oncrpc.Caller): one may be
// held up, by a lost segment or the processor that serves it, while others go on. Of
// two calls of which one depends on the other, the second waits for the first one's
// reply anyway.
//
// What changes an object goes by the line that stands for the handle in front of its
// arguments, where anything may be held there: a server does not recall for it what
// is held on the same connection. Other calls go in turn.
type Caller struct {
	set   *Set
	lines []oncrpc.Caller
	last  atomic.Uint32
}

// Caller returns a Caller over lines, in the order in which those of the Set were
// made. That of the nil Set has all calls go in turn.
func (s *Set) Caller(lines ...oncrpc.Caller) *Caller { return &Caller{set: s, lines: lines} }

// Call implements oncrpc.Caller.
func (c *Caller) Call(ctx context.Context, x *oncrpc.Exchange) error {
	return c.lines[c.route(x)].Call(ctx, x)
}

func (c *Caller) route(x *oncrpc.Exchange) int {
	n := len(c.lines)
	if n == 1 {
		return 0
	}
	if c.set != nil && changes(x) {
		r := xdr.NewReader(x.Args)
		if fh := r.Opaque(delegation.MaxHandle); r.Err() == nil {
			if i := Pick(fh, n); c.set.lines[i].present() != nil {
				return i
			}
		}
	}
	return int(c.last.Add(1) % uint32(n))
}

// Numbers of NFS version 3 (RFC 1813) and of NFSACL, by which access control lists
// are set beside it.
const (
	nfsProgram = 100003
	nfsVersion = 3
	aclProgram = 100227
	aclVersion = 3
	procSetACL = 2
)

// nfsChanges are the procedures that change what their first argument names: SETATTR;
// WRITE to LINK.
const nfsChanges = 1<<2 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<14 | 1<<15

// changes tells whether a call changes something.
func changes(x *oncrpc.Exchange) bool {
	switch {
	case x.Relay:
		return false
	case x.Prog == nfsProgram && x.Vers == nfsVersion:
		return x.Proc < 32 && nfsChanges>>x.Proc&1 == 1
	}
	return x.Prog == aclProgram && x.Vers == aclVersion && x.Proc == procSetACL
}
