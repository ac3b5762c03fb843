// Package mount3 is the wire form of version 3 of the MOUNT protocol (RFC
// 1813, Appendix I), by which a client turns the path of an export into a file
// handle: arguments and results, in both directions.
//
//	NULL     nothing    ▶ nothing
//	MNT      PathArgs   ▶ MntRes     a handle for the path
//	DUMP     nothing    ▶ DumpRes    who mounted what
//	UMNT     PathArgs   ▶ nothing
//	UMNTALL  nothing    ▶ nothing
//	EXPORT   nothing    ▶ ExportRes  what may be mounted, and by whom
//
// A value's AppendTo appends its wire form and cannot fail; Decode reads it
// from an xdr.Reader, whose Err or Done tells what was wrong. Slices that
// Decode returns alias the Reader's input and live as long as that. Names and
// paths are bytes, not text.
//
// The package must not know file systems, exports or transports.
package mount3
