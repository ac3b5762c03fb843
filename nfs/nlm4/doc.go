// Package nlm4 encodes and decodes the Network Lock Manager protocol, which
// supplements NFSv3 with locks: version 4 (RFC 1813, Appendix II), and versions
// 1 and 3, which old clients use (X/Open XNFS, Version 3W). It has the
// arguments and results, for servers and clients.
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
// that suffix, and no results. The receiver calls the procedure that ends in
// _RES, whose arguments are the results.
//
// AppendTo appends a value's wire form and cannot fail. Decode reads the value
// from an xdr.Reader, whose Err or Done reports an error. Both take the call's
// version: versions 1 and 3 have 32-bit offsets and lengths, and fewer status
// values. Slices that Decode returns alias the Reader's input and are valid as
// long as that input. Names are bytes, not text.
//
// The package must not know locks, file systems or transports.
package nlm4
