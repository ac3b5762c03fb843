// Package exports is exports(5), the file in which administrators of Linux say
// which directories a server exports, to whom, and how: its syntax, what its
// options mean, and which of several clients on a line a host is.
//
//	file ──Parse──▶ Export: path, Clients ──Find──▶ the Client that an address is
//	                                         │
//	                                         └─ Names: what hosts are called (Resolver)
//
// Parse takes the file as nfs-utils does, and refuses with a remedy what this
// server does not have. It reports all that is wrong, with line and column.
//
// The package must not know file systems, the NFS protocol or connections:
// nfsserver asks it who a peer is, and does what the Options say.
package exports
