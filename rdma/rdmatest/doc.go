// Package rdmatest is an in-memory RDMA provider for upper-layer tests. It
// implements package rdma's contract strictly: access rights and bounds of
// registered memory, atomic operations, receives that run out, messages that
// are too long, and completions in posting order. It can cut, delay and pause a
// connection on request, and runs inside a testing/synctest bubble.
//
//	Conn ──Post──▶ queue ──▶ sender ══frames══▶ peer's reader
//	  ▲                                           ├──▶ its registered memory
//	  └── Completer                               └──▶ its Handler
//
// As on a network, the one goroutine that reads the connection handles all
// arriving frames: while an end's Handler is busy, that end neither responds to
// an RDMA Read nor receives a response.
//
// The package must not know its users' protocol or any network. Slice ownership
// is as in package rdma.
package rdmatest
