package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// An operation executes one operation: it decodes the arguments from x.args,
// and appends the results to x.out, status included. The error is for the RPC
// layer.
type operation struct {
	do    func(ctx context.Context, x *compound) nfs4.Status
	flags opFlags

	// longest is the length in bytes of the longest results, with number and
	// status. Operations with variable results shrink to the room instead.
	longest int
}

type opFlags uint16

const (
	needsCurrent opFlags = 1 << iota // a current filehandle
	needsSaved
	firstAlone // may come without SEQUENCE, but then must be the only one
	changes    // changes something: runs to its end even if the connection ends
	makes      // makes an object, for which GETFH follows
	ofPlaces   // has a meaning in an absent file system
	sequenced  // has sequence numbers of owners in version 4.0
	judges     // judges by itself, or leaves to others, whether objects take the call's flavour
)

// lookup returns the operation's row, or the status of one that the minor
// version does not have (RFC 8881, Sections 2.7, 15.1.3.4 and 18.52).
func (x *compound) lookup() (*operation, nfs4.Status) {
	first, last, ok := x.op.Minors()
	switch {
	case !ok || x.minor < first:
		x.op = nfs4.OpIllegal
		return nil, nfs4.ErrOpIllegal
	case x.minor > last:
		return nil, nfs4.ErrNotSupp
	}
	o := &operations[x.op]
	if o.do == nil && x.op != nfs4.OpSequence {
		return nil, nfs4.ErrNotSupp
	}
	return o, nfs4.OK
}

// position checks the position of an operation in its COMPOUND (RFC 8881,
// Sections 2.10.2.1 and 15.1.3).
func (x *compound) position(o *operation) nfs4.Status {
	switch {
	case x.minor == nfs4.Minor0:
		return nfs4.OK
	case x.op == nfs4.OpSequence && x.i > 0:
		return nfs4.ErrSequencePos
	case x.op == nfs4.OpSequence || x.i > 0 && x.op != nfs4.OpBindConnToSession:
		return nfs4.OK
	case o.flags&firstAlone == 0:
		return nfs4.ErrOpNotInSession
	case x.n > 1:
		return nfs4.ErrNotOnlyOp
	}
	return nfs4.OK
}
