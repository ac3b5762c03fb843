// Command mountrdma mounts NFS servers over RDMA. Without a mount, it also
// lists, shows, finds, copies, moves and removes files on servers, shows what a server
// supports, measures its speed, and bridges TCP clients to it.
// mount(8) calls the command under the name of mount.nfsrdma.
//
//	main, app    flags of all commands      url             parses operands
//	mountcmd ─▶ internal/mountopt           the command line of a mount
//	daemon ─▶ mount ─▶ reach ─▶ fusefs      a background process that serves the mount
//	mountpoint                              the host's side of a mount
//	umount ─▶ exit_socket                   waits until the mount's process has exited
//	session ─▶ nfsrdma.Client, export       from a URL to a file system
//	dial                                    connections, with the failed step
//	ls stat cat rm mkdir mv ln df           one file each
//	chmod du find ─▶ walk                   through trees
//	cp ─▶ internal/copytree                 trees, several files at a time
//	info ping bench ─▶ internal/loadgen     facts and speed of a server
//	doctor ─▶ internal/doctor               finds out why this host cannot mount
//	pingpong ─▶ internal/pingpong           a test of a RoCE fabric
//	bridge                                  TCP clients to a server
//	record                                  writes the last bytes of connections to a file
//	nfs4                                    facts about an NFSv4 server
//	steperror, remote                       errors with their remedies
//
// The command chooses the RDMA provider and wires packages together. It implements no
// protocol.
package main
