// Package probe tests what holds between two hosts that mount the same file system: a
// probe runs on each, and they find each other by files in a directory.
//
//	host 1 ── DIR/.nfsrdma-probe-ID1/{hello,1,2,...} ──▶ host 2
//	       ◀─ DIR/.nfsrdma-probe-ID2/{hello,1,2,...} ──
//
// A probe is alive while its hello changes. Messages are numbered files. Host 1 makes
// changes, and host 2 judges what it sees of them. The late test (late.go) also shows
// whether the file system executes a write of a host that has lost its lock.
//
// The package must not know NFS.
package probe
