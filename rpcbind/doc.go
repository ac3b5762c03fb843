// Package rpcbind finds the port on which a server answers a program: the
// portmapper, version 2 (RFC 1833, Section 3), as client and as server.
//
//	GetPort ─▶ oncrpc.Caller ═ TCP, UDP port 111 ═▶ Server ─▶ Portmapper
//	   ▲                                                         │ mappings
//	   └──────────────────── port ◀══════════════════════════════┘
//
// A client closes its connection itself, and knows no transport: any Caller
// will do. The server hands out a list that its owner gives it, and offers no
// SET and UNSET, by which others could change it, nor CALLIT, which sends
// calls on in the portmapper's name.
//
// The package must not know the programs that it is asked for. What it returns
// aliases nothing.
package rpcbind
