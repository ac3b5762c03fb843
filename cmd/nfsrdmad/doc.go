// Command nfsrdmad serves directories by NFS versions 3, 4.0, 4.1 and 4.2, on
// RPC-over-RDMA (iWARP over TCP, all in user space) and on plain TCP.
//
//	serve.go    flags        exports.go  DIR=/EXPORT     state.go  the state directory
//	daemon.go   the running daemon: open exports, listening transports, one drain
//	exportsfile.go  --exports FILE, and exports check    reload.go  SIGHUP
//	exports_order.go  exports list, add and remove       reload_order.go  nfsrdmad reload
//	greeting.go what a person at a terminal reads
//	shares.go   directories that are open, over changes of the exports
//	control.go  the socket of nfsrdmad status and clients
//	metrics.go, metriclist.go  --metrics                 record.go  --record
//	live.go, live.html  the live page there              live_words.go  what needs attention
//	remedy.go   errors of the host with their remedies   files.go  the limit of open files
//
// The command chooses providers and wires packages together. It implements no
// protocol.
package main
