// Package stream makes ONC RPC over TCP servers available over RPC-over-RDMA. A
// Listener turns the calls that a responder (rpcrdma.Server) receives into
// record streams. A Binding locates the data items in a program's messages, so
// that the Listener can move them to and from chunks:
//
//	rdma.Conn ══▶ Server ──call──▶ Listener ──records──▶ a server over TCP
//	          ◀══        ◀─reply── (Bindings) ◀──records──
//
// The package must not know which provider moves the bytes, nor what a program
// does.
package stream
