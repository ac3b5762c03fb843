// Package rpcbind finds the address at which a server answers a program: the
// portmapper, version 2, and rpcbind, versions 3 and 4 (RFC 1833), as client
// and as server, with the netids of RFC 5665. It also registers programs with
// the rpcbind of the host.
//
//	GetPort ─▶ oncrpc.Caller ═ TCP, UDP port 111 ═▶ Server ─▶ Portmapper
//	   ▲                                                         │ Services
//	   └──────────────────── port ◀══════════════════════════════┘
//
//	Register ─▶ oncrpc.Caller ═ /run/rpcbind.sock ═▶ the host's rpcbind
//
// The client functions take any oncrpc.Caller; the caller closes the
// connection. The server answers from a list that its owner supplies;
// Portmapper describes the calls that it refuses.
//
// Version 2 reports ports of IPv4's TCP and UDP. Versions 3 and 4 report
// universal addresses of the transport that carries the call. If a service
// listens at every address of the host, the reported address is the address at
// which the caller has reached the host.
//
// The package must not know the programs that callers ask for. Returned values
// alias nothing.
package rpcbind
