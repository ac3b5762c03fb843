// Command nfsrdmad serves directories over NFSv3, on RPC-over-RDMA (iWARP over
// TCP, all in user space) and on plain TCP.
//
//	serve.go    flags        exports.go  DIR=/EXPORT     state.go  the state directory
//	daemon.go   the running daemon: open exports, listening transports, one drain
//	exportsfile.go  --exports FILE, and exports check    reload.go  SIGHUP
//	shares.go   directories that are open, over changes of the exports
//	record.go   files of the last bytes of connections
//	remedy.go   errors of the host with their remedies
//
// The command chooses providers and wires packages together. It implements no
// protocol.
package main
