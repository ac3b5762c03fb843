// Package nlm4 is the wire form of the Network Lock Manager, the companion of
// NFS version 3 for locks: version 4 (RFC 1813, Appendix II), and versions 1
// and 3, which old clients use (X/Open XNFS, Version 3W). It has
// the arguments and results, in both directions.
//
//	TEST           TestArgs    ▶ TestRes    could the lock be had?
//	LOCK, NM_LOCK  LockArgs    ▶ Res        a lock, perhaps later
//	CANCEL         CancelArgs  ▶ Res        the end of the wait for a lock
//	UNLOCK         UnlockArgs  ▶ Res
//	GRANTED        TestArgs    ▶ Res        to the client: the wait is over
//	SHARE, UNSHARE ShareArgs   ▶ ShareRes   share reservations
//	FREE_ALL       Notify      ▶ nothing    all locks of a client that restarted
//
// A procedure whose name ends in _MSG has the arguments of the procedure without
// that end, and no results. The receiver makes a call of the procedure that ends
// in _RES, whose arguments are the results.
//
// AppendTo appends a value's wire form and cannot fail. Decode reads the value
// from an xdr.Reader, whose Err or Done reports an error. Both take the version
// of the call: versions 1 and 3 have offsets and lengths of 32 bits, and fewer
// status words. Slices that Decode returns alias the Reader's input and are valid
// as long as that input. Names are bytes, not text.
//
// The package must not know locks, file systems or transports.
package nlm4
