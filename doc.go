// Package nfsrdma serves and uses NFS over RDMA in user space: a server of file
// systems by NFS versions 3, 4.0, 4.1 and 4.2, on RDMA (iWARP over TCP) and on plain
// TCP, and a client of such servers and of Linux's own.
//
//	NewServer ─▶ Server ─ServeRDMA, ServeTCP─▶ net.Listener
//	Dial ─▶ Client ─Mount─▶ nfsclient.FS ─Open─▶ nfsclient.File     version 3
//	DialV4 ─▶ nfs4client.Session ─Open─▶ nfs4client.File            version 4
//
// No RDMA card, kernel module or privilege is needed. This server exports a
// directory, to be mounted as SERVER:/data:
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
// Packages vfs/posix, vfs/mem and vfs/billy make file systems of directories,
// of memory and of go-billy's file systems; nfsserver/gonfs makes one of a
// go-nfs handler.
//
// A server believes the user and groups that a client states (AUTH_SYS, RFC
// 5531, Appendix A), and the network carries data in the clear: serve networks
// that are trusted, and name the clients of an export (nfsserver.Export.Clients).
//
// The package chooses the RDMA provider, iwarp. It must not know a procedure of
// NFS, nor flags.
package nfsrdma
