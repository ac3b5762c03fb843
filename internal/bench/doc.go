// Command bench measures nfsrdmad and mountrdma against the limits of the
// machine: raw TCP, a local listing, FUSE file systems in memory or behind a
// plain TCP connection. Both sides of a row run alternately, so that a ratio
// compares measurements of the same seconds. Server and client are separate
// processes.
//
//	row ─▶ ours:  nfsrdmad ◀─ mountrdma bench     or a mount and a reader
//	    ─▶ limit: tcpserver ◀─ tcpclient          or memfs, tcpfs or pagefs and a reader
//	runs ─▶ series ─▶ table on standard output, and in a document
//
// It starts itself again for each stand-in of a server or a client (role). It
// knows the programs only by their command lines. It imports of the module only the tokens of
// Kerberos, which are the limit of encrypted rows. Its only lasting output is the table.
//
//	go run ./internal/bench [-rounds 5] [-time 1s] [-rows REGEXP] [-doc FILE]
package main
