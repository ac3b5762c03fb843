// Package nfsrdma has a server and a client for NFS over RDMA in user space. The server
// supports NFS versions 3, 4.0, 4.1 and 4.2 over RDMA (iWARP over TCP) and plain TCP; the
// client works with this server and Linux's.
//
//	NewServer ─▶ Server ─ServeRDMA, ServeTCP─▶ net.Listener
//	Dial ─▶ Client ─Mount─▶ nfsclient.FS ─Open─▶ nfsclient.File     version 3
//	DialV4 ─▶ nfs4client.Session ─Open─▶ nfs4client.File            version 4
//
// No RDMA hardware, kernel module or privilege is needed. This server exports a directory
// as SERVER:/data:
//
//	dir, err := posix.Open("/srv/data", posix.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	server, err := nfsrdma.NewServer(nfsrdma.ServerConfig{
//		Exports: []nfsserver.Export{{Path: "/data", FS: dir}},
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	log.Fatal(server.ListenAndServe(":20049", ":2049"))
//
// Packages vfs/posix, vfs/mem and vfs/billy provide file systems: host directories,
// memory, and adapters for go-billy's file systems. Package nfsserver/gonfs adapts go-nfs
// handlers.
//
// By default a server trusts the user and groups in a client's calls (AUTH_SYS, RFC 5531,
// Appendix A), and connections are not encrypted: serve trusted networks only, and restrict
// the clients of an export (nfsserver.Export.Clients).
//
// The package selects the RDMA provider, iwarp. It must not contain code of NFS
// procedures or command-line flags.
package nfsrdma
