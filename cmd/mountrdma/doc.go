// Command mountrdma uses NFS servers over RDMA without a mount: it lists, shows,
// copies, makes and removes files, says what a server can do, and measures it.
//
//	main, app    flags of all commands      url     what operands mean
//	dialer ─▶ line ─▶ session ─▶ export     from a URL to a file system
//	ls stat cat rm mkdir                    one file each
//	cp ─▶ copier ─▶ tree: host or remote    trees, several files at a time
//	info ping bench ─▶ load                 what a server says and does
//	steperror, mounterror, remote           what went wrong, and what to change
//
// It chooses the provider and wires packages together; there is no protocol
// here.
package main
