// Package nfs4 is the wire form of NFS version 4, minor versions 0 to 2 (RFC 7530, RFC
// 8881, RFC 7862, RFC 8275, RFC 8276): COMPOUND, and the arguments and results of its
// operations, in both directions, for server and client. It also binds the
// protocol to RPC-over-RDMA (RFC 8267, Section 6.1).
//
//	call:  CompoundArgs │ Op, XxxArgs │ Op, XxxArgs [item] │ …
//	reply: CompoundRes  │ Op, XxxRes  │ Op, XxxRes [item]  │ …
//
// A server walks over a COMPOUND in its receive buffer: the server reads an
// operation's number and arguments, executes the operation, appends its results,
// and goes on to the next. Nothing decodes a COMPOUND as a whole, because only
// the arguments of an operation tell the beginning of the next.
//
// AppendTo appends a value's wire form and cannot fail. Decode reads the value
// from an xdr.Reader, whose Err reports an error. Nothing uses reflection. Only
// lists allocate: ACL, SecInfoRes, FSLocations, ListXattrsRes, and the sources
// of CopyArgs.
//
// # The data items
//
// Four operations have an item that a transport may carry apart from the
// message (Items). AppendTo of WriteArgs, ReadRes and ReadLinkRes ends with the
// item's length word: the bytes are the item of the oncrpc message. Decode
// reads them with Reader.Item, whether inline or apart.
//
// # Life of slices
//
// Handles, names, owners and data that Decode returns alias the Reader's input
// and are valid as long as that input. Names are bytes, not text.
//
// The package must not know a file system, a server's policy or a transport.
package nfs4
