// Package nfsserver implements the programs of an NFS server: NFSv3 and
// MOUNT version 3 (RFC 1813), and NFSACL version 3, for any number of exported
// file systems.
//
//	oncrpc.Mux ─Call─▶ nfsProgram ─▶ procedure ─FS─▶ vfs.FS of the export
//	               │                 handle ▶ export, client, caller, name
//	               ├─▶ aclProgram    the same, for vfs.ACLs
//	               └─▶ mountProgram  path ▶ handle
//
// Package exportset decides which export a handle belongs to, whether the client may use
// the export, and as which user the call is executed, before a file
// system sees the call. It also manages permits to use storage, and recalls
// delegations before a change. The package checks names and arguments, and
// whether the export is writable. It converts attributes and errors of package
// vfs, and the Denials of package exportset, into the protocol's. Replies of
// NFS3ERR_JUKEBOX are not cached for retries.
//
// If the export set has grants (Config.Grants), the Server also has the program in
// docs/delegation.md.
//
// # Lifetime of slices
//
// Arguments alias the call message and are used only until the procedure
// returns; the data of a WRITE goes to the file system without a copy. The data
// of a READ is read into a lent buffer, or mapped from the file, and then belongs
// to the transport.
//
// The package must not depend on a transport, or on how a file system is stored.
package nfsserver
