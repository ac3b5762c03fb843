// Package mount3 is the wire form of version 3 of the MOUNT protocol (RFC 1813,
// Appendix I), with which a client turns the path of an export into a file
// handle. It has the arguments and results, in both directions.
//
//	NULL     nothing    ▶ nothing
//	MNT      PathArgs   ▶ MntRes     a handle for the path
//	DUMP     nothing    ▶ DumpRes    the mounts of each client
//	UMNT     PathArgs   ▶ nothing
//	UMNTALL  nothing    ▶ nothing
//	EXPORT   nothing    ▶ ExportRes  the exports, and their groups of clients
//
// AppendTo appends a value's wire form and cannot fail. Decode reads the value
// from an xdr.Reader, whose Err or Done reports an error. Slices that Decode
// returns alias the Reader's input and are valid as long as that input. Names
// and paths are bytes, not text.
//
// The package must not know file systems, exports or transports.
package mount3
