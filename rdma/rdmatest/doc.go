// Package rdmatest is an RDMA provider in memory, for tests of upper layers. It
// keeps the contract of package rdma to the letter: rights and bounds of
// registered memory, atomic operations, receives that run out, messages that
// are too long, and completions in the order of posting. It can cut, delay and
// stop a connection on request, and runs inside a testing/synctest bubble.
//
//	Conn ──Post──▶ queue ──▶ sender ══frames══▶ reader of the peer
//	  ▲                                           ├──▶ its registered memory
//	  └── Completer                               └──▶ its Handler
//
// As on a network, the one goroutine that reads the connection handles all
// arriving frames: while an end's Handler is busy, that end neither answers an
// RDMA Read nor takes its response.
//
// The package must not know its users' protocol, and no network. Slices live as
// in package rdma.
package rdmatest
