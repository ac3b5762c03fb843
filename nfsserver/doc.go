// Package nfsserver implements the programs of an NFS server: NFS version 3 and
// MOUNT version 3 (RFC 1813), and NFSACL version 3, for any number of exported
// file systems.
//
//	oncrpc.Mux ─Call─▶ nfsProgram ─▶ procedure ─FS─▶ vfs.FS of the export
//	               │                 handle ▶ export, client, caller, name
//	               ├─▶ aclProgram    the same, for vfs.ACLs
//	               └─▶ mountProgram  path ▶ handle
//
// Which export a handle belongs to, whether the client may use the export, and
// as which user the call is done, is decided by package realm, before a file
// system sees the call; so are permits to use storage, and the recall of
// delegations before a change. The package checks names and arguments, and
// whether the export is writable. It converts attributes and errors of package
// vfs, and the Denials of package realm, into the protocol's. Replies of
// NFS3ERR_JUKEBOX are not kept for retries.
//
// If the realm has grants (Config.Grants), the Server has the program of
// docs/delegation.md too.
//
// # Life of slices
//
// Arguments alias the call message and are used only until the procedure
// returns; the data of a WRITE goes to the file system without a copy. The data
// of a READ is read into a lent buffer, or lent in its file's mapping, and then belongs
// to the transport.
//
// The package must not know a transport, nor how a file system is stored.
package nfsserver
