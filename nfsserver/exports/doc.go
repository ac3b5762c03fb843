// Package exports reads exports(5), the file in which administrators of Linux
// list the directories that a server exports, with their clients and options.
// It implements the syntax, the meaning of the options, and which of several clients
// on a line applies to a host.
//
//	file ──Parse──▶ Export: path, Clients ──Find──▶ the Client for an address
//	                                         │
//	                                         └─ Names: names of hosts (Resolver)
//
// Parse reads the file as nfs-utils does, and rejects, with a remedy, features
// that this server does not have. It reports all errors, with line and column.
//
// The package must not depend on file systems, the NFS protocol or connections:
// package exportset calls Find for a peer's client entry, and applies the Options.
package exports
