// Package nfsacl is the wire form of version 3 of the NFSACL program, by which
// clients read and set the access control lists of POSIX 1003.1e, and its
// binding to RPC-over-RDMA (RFC 8267, Section 5.2). No standard describes the
// program: what is here is what Linux and Solaris say to each other.
//
//	NULL    nothing     ▶ nothing
//	GETACL  GetACLArgs  ▶ GetACLRes
//	SETACL  SetACLArgs  ▶ SetACLRes
//
// Lists come in pairs: the one that is for the object, and the one that a
// directory's new objects get. A mask says which of the two are meant. Each is
// a count, and an array that has as many entries, or none where only the count
// was asked for:
//
//	count │ n │ n × (tag, id, perm)
//
// # Lists as POSIX has them
//
// The program's lists differ from POSIX's in three ways that ACL hides:
// entries of the owner and the owning group carry these ids; the tags of a
// default list have the bit 0x1000; and a list that says no more than a mode
// does has a fourth entry, a mask that repeats the group's. AppendTo of results
// and arguments adds all this, Decode takes it away and sorts.
//
// # Life of slices
//
// Handles alias the Reader's input; lists are copies.
//
// The package must not know a file system, a server's policy or a transport.
package nfsacl
