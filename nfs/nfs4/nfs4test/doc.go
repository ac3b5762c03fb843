// Package nfs4test has scenarios for servers of NFS versions 4.0 to 4.2: the
// calls that a client sends, and the answers that the standard requires. A
// scenario sees nothing but a connection, so that it checks any server. Tests
// run it against ours and against Linux's.
//
//	Scenario ─▶ T ─▶ session ─▶ conn ─▶ RPC over TCP ─▶ the server under test
//
// All scenarios follow the standard's text. A scenario that Linux's server does
// not pass notes the behaviour of Linux, beside the paragraph that decides.
//
// The COMPOUNDs are made of single operations, which may be malformed, out of
// place or cut short. Package nfs4 gives the wire forms.
//
// Only tests import the package. It must not know a server's implementation.
package nfs4test
