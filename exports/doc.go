// Package exports reads exports(5), the file in which administrators of Linux
// list the directories that a server exports, with their clients and options.
// It knows the syntax, the meaning of the options, and which of several clients
// on a line applies to a host.
//
//	file ──Parse──▶ Export: path, Clients ──Find──▶ the Client for an address
//	                                         │
//	                                         └─ Names: names of hosts (Resolver)
//
// Parse reads the file as nfs-utils does, and refuses, with a remedy, features
// that this server does not have. It reports all errors, with line and column.
//
// The package must not know file systems, the NFS protocol or connections:
// nfsserver asks it for the client entry of a peer, and applies the Options.
package exports
