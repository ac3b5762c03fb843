// Package nfs4 holds the facts of NFS version 4, in all its minor versions,
// that RPC-over-RDMA needs: which data items of a COMPOUND may travel in
// separate chunks (RFC 8267, Section 6.1). The protocol itself is not here.
//
// The package must not know a transport.
package nfs4
