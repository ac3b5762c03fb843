// Package nfsacl encodes and decodes the NFSACL program, version 3, with which
// clients read and set POSIX 1003.1e access control lists, and binds it to
// RPC-over-RDMA (RFC 8267, Section 5.2). No standard describes the program:
// this package follows the messages of Linux and Solaris.
//
//	NULL    nothing     ▶ nothing
//	GETACL  GetACLArgs  ▶ GetACLRes
//	SETACL  SetACLArgs  ▶ SetACLRes
//
// Lists come in pairs: the object's access list, and the default list that a
// directory gives to new objects. A mask selects lists in the pair. Each list
// is a count and an array, which has count entries, or none if the mask
// requests only the count:
//
//	count │ n │ n × (tag, id, perm)
//
// # Lists in POSIX's form
//
// The program's lists differ from POSIX's in three ways that ACL hides. The
// entries for the owner and the owning group contain their ids. The tags in a
// default list have the bit 0x1000. A list that is equivalent to a mode has a
// fourth entry, a mask that repeats the group's permissions. AppendTo of
// results and arguments adds all this; Decode removes it and sorts.
//
// # Life of slices
//
// Handles alias the Reader's input; lists are copies.
//
// The package must not know file systems, server policies or transports.
package nfsacl
