// Command bench measures nfsrdmad and mountrdma against what the machine can do:
// raw TCP, a local listing, file systems under FUSE that are in memory or behind a
// plain TCP connection. Both sides of a row run alternately, so that a ratio is one of
// the same seconds, with server and client as processes of their own.
//
//	row ─▶ ours:  nfsrdmad ◀─ mountrdma bench     or a mount and a reader
//	    ─▶ limit: tcpserver ◀─ tcpclient          or memfs or tcpfs and a reader
//	runs ─▶ series ─▶ table on standard output, and in a document
//
// It starts itself anew for what stands in for a server or a client (role). It
// knows the programs by their command lines only, and imports nothing of the
// module. What it leaves behind is the table.
//
//	go run ./internal/bench [-rounds 5] [-time 1s] [-rows REGEXP] [-doc FILE]
package main
