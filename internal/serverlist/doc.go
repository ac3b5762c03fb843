// Package serverlist chooses the server to use from a list of servers of which one serves
// at a time: hosts of a shared file system, of which the others wait to take over.
//
//	connection ─lost─▶ Select ─┬─▶ ask a ─ refused, asked again
//	                           ├─▶ ask b ─ serves ───────────▶ connect to b
//	                           └─▶ ask c ─ silent, abandoned
//
// All servers are asked at once, and the first that serves is used. A Selector is shared by
// the connections of a client, so that all of them lead to the same server.
//
// The package must not know any protocol: its user asks a server, and connects.
package serverlist
