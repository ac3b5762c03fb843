// Package nfs3 encodes and decodes NFSv3 (RFC 1813): the arguments and results
// of its 22 procedures, for servers and clients. It also binds the protocol to
// RPC-over-RDMA (RFC 8267, Section 4).
//
//	          arguments                       results
//	XID, credential, … ┌────────────┐   XID, verifier, … ┌────────────┐
//	                   │ XxxArgs    │                    │ XxxRes     │
//	                   └─ [item] ───┘                    └─ [item] ───┘
//
// AppendTo appends a value's wire form and cannot fail. Decode reads the value
// from an xdr.Reader, whose Err or Done reports an error. Nothing uses
// reflection and nothing allocates.
//
// # The data item
//
// Four procedures have one item that a transport may send separately from the
// message: the data in WRITE and READ, and the path in SYMLINK and READLINK.
// The item is always last in its arguments or results. AppendTo of these four
// types ends with the item's length word: the bytes are the oncrpc message's
// item, and a transport that sends them inline adds their padding. Decode reads
// them with Reader.Item, whether inline or separate.
//
// # Types that procedures share
//
//	HandleArgs  GETATTR READLINK FSSTAT FSINFO PATHCONF
//	DirOpArgs   LOOKUP REMOVE RMDIR
//	MakeRes     CREATE MKDIR SYMLINK MKNOD
//	WccRes      SETATTR REMOVE RMDIR
//
// NULL has neither arguments nor results. A DirWriter writes READDIR and
// READDIRPLUS entries, and a DirReader reads them, one at a time.
//
// # Life of slices
//
// Handles, names, paths and data that Decode returns alias the Reader's input
// and are valid as long as that input. Names and paths are bytes, not text.
//
// The package must not know file systems, server policies or transports.
package nfs3
