// Package rdmatest is an RDMA provider in memory, for tests of what stands
// above one. It keeps the contract of package rdma to the letter: rights and
// bounds of registered memory, atomic operations, receives that run out,
// messages that are too long, and completions in the order of posting. It can
// cut, delay and stop a connection to order, and runs inside a testing/synctest
// bubble.
//
//	Conn ──Post──▶ queue ──▶ sender ══frames══▶ reader of the peer
//	  ▲                                           ├──▶ its registered memory
//	  └── Completer                               └──▶ its Handler
//
// As on a network, whatever arrives is handled by the one goroutine that reads
// the connection: an RDMA Read is not answered, nor its response taken, while
// that end's Handler is busy.
//
// The package must not know what its users say to each other, and no network.
// Slices live as package rdma says.
package rdmatest
