// Package rpcbind finds the address at which a server provides a program: it implements
// the portmapper, version 2, and rpcbind, versions 3 and 4 (RFC 1833), as client and as
// server, with netids from RFC 5665. It also registers programs with the host's rpcbind.
//
//	GetPort ─▶ oncrpc.Caller ═ TCP, UDP port 111 ═▶ Server ─▶ Portmapper
//	   ▲                                                         │ Services
//	   └──────────────────── port ◀══════════════════════════════┘
//
//	Register ─▶ oncrpc.Caller ═ /run/rpcbind.sock ═▶ the host's rpcbind
//
// The client functions take any oncrpc.Caller; the caller closes the connection. The
// server replies from a list that its owner supplies; Portmapper describes the calls that
// it rejects.
//
// Version 2 reports TCP and UDP ports for IPv4. Versions 3 and 4 report universal
// addresses for the transport that carries the call. If a service listens on all
// addresses, the reported address is the one at which the caller has reached the host.
//
// The package must not know the programs that callers look up. Returned values alias
// nothing.
package rpcbind
