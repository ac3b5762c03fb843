// Command bench measures nfsrdmad and mountrdma against the machine's limits: raw
// TCP, a local listing, FUSE file systems in memory or behind a plain TCP
// connection. A row's two sides run alternately, so that a ratio compares
// measurements taken within the same seconds. Server and client are separate
// processes.
//
//	row ─▶ ours:  nfsrdmad ◀─ mountrdma bench     or a mount and a reader
//	    ─▶ limit: tcpserver ◀─ tcpclient          or memfs, tcpfs or pagefs and a reader
//	runs ─▶ series ─▶ table on standard output, and in a document
//
// It runs itself again for each stand-in for a server or a client (role). It uses
// the programs only through their command lines. From the module it measures
// directly only the Kerberos tokens, which are the limit for encrypted rows. Its
// only lasting output is the table.
//
//	go run ./internal/bench [-rounds 5] [-time 1s] [-rows REGEXP] [-doc FILE]
package main
