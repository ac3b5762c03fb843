// Command nfsrdmad serves directories over NFSv3, 4.0, 4.1 and 4.2, on RPC-over-RDMA
// (iWARP over TCP, all in user space) and on plain TCP.
//
//	serve.go    flags        exports.go  DIR=/EXPORT     state.go  the state directory
//	daemon.go   the running daemon: open exports, listening transports, one drain
//	exportsfile.go  --exports FILE, and exports check    reload.go  SIGHUP
//	exports_order.go  exports list, add and remove       reload_order.go  nfsrdmad reload
//	greeting.go mount commands for a user at a terminal
//	shares.go   open directories, which survive changes of the exports
//	control.go  the socket of nfsrdmad status and clients       record.go  --record
//	operations.go  what status and metrics read: internal/report has the documents, metrics and live page
//	remedy.go   errors of the host with their remedies   files.go  the limit of open files
//
// The command chooses the RDMA provider and wires packages together. It implements no
// protocol.
package main
