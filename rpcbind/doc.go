// Package rpcbind finds the address at which a server answers a program: the
// portmapper, version 2, and rpcbind, versions 3 and 4 (RFC 1833), as client and
// as server, with the netids of RFC 5665; and it registers programs with the
// rpcbind of the host.
//
//	GetPort ─▶ oncrpc.Caller ═ TCP, UDP port 111 ═▶ Server ─▶ Portmapper
//	   ▲                                                         │ Services
//	   └──────────────────── port ◀══════════════════════════════┘
//
//	Register ─▶ oncrpc.Caller ═ /run/rpcbind.sock ═▶ the host's rpcbind
//
// A client closes its connection itself, and knows no transport: any Caller
// will do. The server hands out a list that its owner gives it; Portmapper says
// what it refuses.
//
// Version 2 tells ports of IPv4's TCP and UDP. Versions 3 and 4 tell universal
// addresses, of the transport over which they are asked; that of a service at every
// address of the host is told as the one at which the caller has reached it.
//
// The package must not know the programs that it is asked for. What it returns
// aliases nothing.
package rpcbind
