package rdmatest

import "errors"

// What ends a connection beside a Close, an Abort and a fault. Both ends get
// it: the one that found it out, and the other in place of a Terminate.
var (
	// ErrNoRecv: a Send came and no receive was posted.
	ErrNoRecv = errors.New("rdmatest: no receive posted")
	// ErrTooLong: a Send was longer than the receiver's RecvSize.
	ErrTooLong = errors.New("rdmatest: message too long")
	// ErrAccess: the STag is not known, lacks the right, or does not cover
	// the octets.
	ErrAccess = errors.New("rdmatest: memory access violation")
	// ErrUnaligned: an atomic operation on what is not an aligned word.
	ErrUnaligned = errors.New("rdmatest: atomic operation on an unaligned address")
	// ErrCut: the connection was cut to order.
	ErrCut = errors.New("rdmatest: connection cut")
	// ErrRejected: the listener's user refused the connection.
	ErrRejected = errors.New("rdmatest: connection rejected")
)
