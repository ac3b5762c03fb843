// Package standby tests nfsrdmad serve --standby: two hosts serve one after the other from
// a file system that they share (package clusterfs), while clients work. The file system's
// record of operations shows which host has changed what.
//
//	clients ── Go client, mountrdma: 127.0.1.1,127.0.1.2:/run/shared/data
//	              │                      │
//	host a: nfsrdmad --standby    host b: nfsrdmad --standby    UTS and mount namespaces
//	              │ /run/shared          │ /run/shared
//	           mount a                mount b
//	              └───────── engine ─────┘
package standby
