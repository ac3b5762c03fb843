package rdmatest

import "errors"

// Causes that end a connection, besides Close, Abort and faults. Both ends get
// the cause: the end that found it, and the other in place of a Terminate.
var (
	// ErrNoRecv means that a Send arrived and no receive was posted.
	ErrNoRecv = errors.New("rdmatest: no receive posted")
	// ErrTooLong means that a Send was longer than the receiver's RecvSize.
	ErrTooLong = errors.New("rdmatest: message too long")
	// ErrAccess means that the STag is unknown, lacks the right, or does not
	// cover the bytes.
	ErrAccess = errors.New("rdmatest: memory access violation")
	// ErrUnaligned means that the address of an atomic operation is not an
	// aligned word.
	ErrUnaligned = errors.New("rdmatest: atomic operation on an unaligned address")
	// ErrCut means that the test cut the connection.
	ErrCut = errors.New("rdmatest: connection cut")
	// ErrRejected means that the listener's user refused the connection.
	ErrRejected = errors.New("rdmatest: connection rejected")
)
