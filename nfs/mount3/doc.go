// Package mount3 encodes and decodes the MOUNT protocol, version 3 (RFC 1813,
// Appendix I), with which a client maps an export's path to a file handle. It
// has the arguments and results, for servers and clients.
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
