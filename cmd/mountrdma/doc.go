// Command mountrdma mounts NFS servers over RDMA. Without a mount, it also
// lists, shows, copies, makes and removes files on servers, shows the abilities
// of a server, measures its speed, and bridges TCP clients to a server.
// mount(8) calls the command under the name of mount.nfsrdma.
//
//	main, app    flags of all commands      url             meanings of operands
//	mountcmd ─▶ internal/mountopt           the command line of a mount
//	daemon ─▶ mount ─▶ reach ─▶ fusefs      a process that stays and serves the mount
//	mountpoint                              the host's side of a mount
//	umount ─▶ exit_socket                   the end of a mount
//	session ─▶ nfsrdma.Client, export       from a URL to a file system
//	dial                                    connections, with the failed step
//	ls stat cat rm mkdir                    one file each
//	cp ─▶ internal/copytree                 trees, several files at a time
//	info ping bench ─▶ internal/loadgen     facts and speed of a server
//	doctor ─▶ internal/doctor               what keeps this host from mounting
//	pingpong ─▶ internal/pingpong           a test of a RoCE fabric
//	bridge                                  TCP clients to a server
//	record                                  a file of the last bytes of connections
//	nfs4                                    facts about a server of version 4
//	steperror, remote                       errors with their remedies
//
// The command chooses the provider and wires packages together. It implements
// no protocol.
package main
