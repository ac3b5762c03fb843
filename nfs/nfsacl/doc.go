// Package nfsacl is the wire form of version 3 of the NFSACL program, with
// which clients read and set the access control lists of POSIX 1003.1e, and its
// binding to RPC-over-RDMA (RFC 8267, Section 5.2). No standard describes the
// program: this package follows the messages of Linux and Solaris.
//
//	NULL    nothing     ▶ nothing
//	GETACL  GetACLArgs  ▶ GetACLRes
//	SETACL  SetACLArgs  ▶ SetACLRes
//
// Lists come in pairs: the access list of the object, and the default list that
// a directory gives to new objects. A mask selects lists of the pair. Each list
// is a count and an array, which has count entries, or none if the mask asks
// only for the count:
//
//	count │ n │ n × (tag, id, perm)
//
// # Lists in POSIX's form
//
// The program's lists differ from POSIX's in three ways that ACL hides. The
// entries of the owner and the owning group carry their ids. The tags of a
// default list have the bit 0x1000. A list that says no more than a mode has a
// fourth entry, a mask that repeats the group's rights. AppendTo of results and
// arguments adds all this; Decode removes it and sorts.
//
// # Life of slices
//
// Handles alias the Reader's input; lists are copies.
//
// The package must not know a file system, a server's policy or a transport.
package nfsacl
