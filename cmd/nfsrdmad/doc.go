// Command nfsrdmad serves directories over NFSv3, on RPC-over-RDMA (iWARP over
// TCP, all in user space) and on plain TCP.
//
//	serve.go    flags        exports.go  DIR=/EXPORT     state.go  the state directory
//	daemon.go   what runs: exports opened, transports listening, one drain
//	exportsfile.go  --exports FILE, and exports check    reload.go  SIGHUP
//	shares.go   directories that are open, over changes of the exports
//	record.go   files of what connections sent and received last
//	remedy.go   errors of the host in words that say what to change
//
// It chooses providers and wires packages together; there is no protocol here.
package main
