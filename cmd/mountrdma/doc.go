// Command mountrdma mounts NFS servers over RDMA. It also uses servers without
// a mount: it lists, shows, copies, makes and removes files, shows the
// abilities of a server, measures it, and bridges TCP clients to it. mount(8)
// calls it under the name of mount.nfsrdma.
//
//	main, app    flags of all commands      url, mountspec  what operands mean
//	mountcmd ─▶ options ◀─ optiontable      the command line of a mount
//	daemon ─▶ mount ─▶ reach ─▶ fusefs      a process that stays and serves it
//	mountpoint, mountinfo, umount ─▶ door   the host's side of it, and its end
//	dialer ─▶ line ─▶ session ─▶ export     from a URL to a file system
//	ls stat cat rm mkdir                    one file each
//	cp ─▶ copier ─▶ tree: host or remote    trees, several files at a time
//	info ping bench ─▶ load, links          what a server says and does
//	bridge                                  TCP clients to a server
//	record                                  a file of what went over connections
//	steperror, mounterror, remote           what went wrong, and what to change
//
// The command chooses the provider and wires packages together. It implements
// no protocol.
package main
