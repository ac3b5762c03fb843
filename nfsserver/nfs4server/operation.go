package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// An operation is an entry in the operation table. execute decodes the arguments from x.args,
// and appends the results, including the status, to x.out.
type operation struct {
	execute func(ctx context.Context, x *compound) nfs4.Status
	flags   opFlags

	// maxResultLen is the maximum length in bytes of the results, including operation number
	// and status. Operations with variable results adapt to the available space instead.
	maxResultLen int
}

type opFlags uint16

const (
	needsCurrent opFlags = 1 << iota // a current filehandle
	needsSaved
	allowedAlone   // allowed without SEQUENCE, but only as the only operation
	changesState   // changes state: runs to completion even if the connection closes
	createsObject  // creates an object; GETFH follows
	allowedAbsent  // meaningful in an absent file system
	hasOwnerSeqID  // has owners' sequence numbers in NFSv4.0
	checksSecurity // checks itself, or leaves to others, whether objects accept the call's flavor
)

// findOperation returns the operation's table entry, or the status for an operation that the
// minor version does not have (RFC 8881, Sections 2.7, 15.1.3.4 and 18.52).
func (x *compound) findOperation() (*operation, nfs4.Status) {
	first, last, ok := x.op.Minors()
	switch {
	case !ok || x.minor < first:
		x.op = nfs4.OpIllegal
		return nil, nfs4.ErrOpIllegal
	case x.minor > last:
		return nil, nfs4.ErrNotSupp
	}
	o := &operations[x.op]
	if o.execute == nil && x.op != nfs4.OpSequence {
		return nil, nfs4.ErrNotSupp
	}
	return o, nfs4.OK
}

// checkPosition checks an operation's position in its COMPOUND (RFC 8881, Sections 2.10.2.1 and
// 15.1.3).
func (x *compound) checkPosition(o *operation) nfs4.Status {
	switch {
	case x.minor == nfs4.Minor0:
		return nfs4.OK
	case x.op == nfs4.OpSequence && x.opIndex > 0:
		return nfs4.ErrSequencePos
	case x.op == nfs4.OpSequence || x.opIndex > 0 && x.op != nfs4.OpBindConnToSession:
		return nfs4.OK
	case o.flags&allowedAlone == 0:
		return nfs4.ErrOpNotInSession
	case x.opCount > 1:
		return nfs4.ErrNotOnlyOp
	}
	return nfs4.OK
}
