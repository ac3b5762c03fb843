// Package nfs4test has scenarios for NFSv4.0 to NFSv4.2 servers: the calls that
// a client sends, and the replies that the standard requires. A scenario needs
// only a connection, so that it can check any server. Tests run it against ours
// and against Linux's.
//
//	Scenario ─▶ T ─▶ session ─▶ conn ─▶ RPC over TCP ─▶ the server under test
//
// All scenarios follow the standard's text. A scenario that Linux's server does
// not pass records Linux's behaviour next to the paragraph that decides.
//
// The COMPOUNDs consist of single operations, which may be malformed, misplaced
// or truncated. Package nfs4 encodes them.
//
// Only tests import the package. It must not know a server's implementation.
package nfs4test
