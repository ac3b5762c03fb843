// Package nfs4 encodes and decodes NFSv4.0 to NFSv4.2 (RFC 7530, RFC 8881, RFC 7862,
// RFC 8275, RFC 8276): COMPOUND, and the arguments and results of its operations, for
// servers and clients. It also binds the protocol to RPC-over-RDMA (RFC 8267, Section
// 6.1).
//
//	call:  CompoundArgs │ Op, XxxArgs │ Op, XxxArgs [item] │ …
//	reply: CompoundRes  │ Op, XxxRes  │ Op, XxxRes [item]  │ …
//
// A server processes a COMPOUND in its receive buffer: it reads an operation's
// number and arguments, executes the operation, appends its results, and
// continues with the next. A COMPOUND is never decoded as a whole, because an
// operation's arguments determine where the next one begins.
//
// AppendTo appends a value's wire form and cannot fail. Decode reads the value
// from an xdr.Reader, whose Err reports an error. Nothing uses reflection. Only
// lists allocate: ACL, SecInfoRes, FSLocations, ListXattrsRes, and the sources
// of CopyArgs.
//
// # The data items
//
// Four operations have an item that a transport may send separately from the
// message (Items). AppendTo of WriteArgs, ReadRes and ReadLinkRes ends with the
// item's length word: the bytes are the oncrpc message's item. Decode reads
// them with Reader.Item, whether inline or separate.
//
// # Life of slices
//
// Handles, names, owners and data that Decode returns alias the Reader's input
// and are valid as long as that input. Names are bytes, not text.
//
// The package must not know file systems, server policies or transports.
package nfs4
