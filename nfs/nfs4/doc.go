// Package nfs4 is what RPC-over-RDMA has to know of NFS version 4, in all its minor
// versions: which data items of a COMPOUND may travel in chunks of their own (RFC
// 8267, Section 6.1). The protocol itself is not here.
//
// The package must not know a transport.
package nfs4
