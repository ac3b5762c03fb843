// Package nfsserver implements the programs of an NFS server: NFS version 3 and
// MOUNT version 3 (RFC 1813), and NFSACL version 3, for any number of exported
// file systems.
//
//	oncrpc.Mux ─Call─▶ nfsProgram ─▶ procedure ─FS─▶ vfs.FS of the export
//	               │                 handle ▶ export, client, caller, name
//	               ├─▶ aclProgram    the same, for vfs.ACLs
//	               └─▶ mountProgram  path ▶ handle
//
// The package decides whether a call is permitted before a file system sees it:
// which export its handle belongs to, whether the client may use the export, as
// which user the call is done, and whether the export is writable. It converts
// attributes and errors of package vfs into the protocol's.
//
// # File handles
//
// A handle consists of a version byte, four bytes with the export's identity
// (Export.ID), the file system's own handle, and a seal of these, made with a
// key (Config.Key):
//
//	02 │ id id id id │ vfs.Handle, at most 44 bytes │ seal, 12 bytes
//
// So a client can use only handles that the server gave to it or to another
// client; handles are no secret between clients. The seal is a truncated
// AES-256-CMAC. The server checks it before it trusts anything else in the
// handle. A handle that cannot be of this server is NFS3ERR_BADHANDLE.
// NFS3ERR_STALE is a handle sealed with another key, as after the loss of the
// key, a handle of an export that no longer exists, or of a removed object.
//
// A handle is valid as long as the key, the export's identity and the object
// stay. A server that exports another directory under an old name must give it
// another identity.
//
// An object that a local process has moved out of the export's directory stays
// accessible to clients that have its handle, as with knfsd. If the client's
// options have subtree_check and the file system supports it (vfs.Container),
// the object is NFS3ERR_STALE, and so is an object to which the caller has no
// path.
//
// # Slow storage
//
// A call waits for its file system for as long as necessary. File systems work
// on 1,024 calls at once, over all transports. One file system may have half of
// the calls that are left, and a party (an IPv4 address, or 64 bits of an IPv6
// address) half of these (see permits). If half of very many calls have
// occupied a file system for very long, new ones are answered NFS3ERR_JUKEBOX
// before anything is done (see overload). So are calls that the host itself
// defers. Such replies are not kept for retries.
//
// # Delegations
//
// Clients of this project may hold delegations of objects by delegation
// counters. With Config.Grants the Server has the program of docs/delegation.md
// for them, and every procedure that changes an object first recalls its
// delegations. A call waits for that for at most a second, and then fails with
// NFS3ERR_JUKEBOX. While it waits, it uses no storage and occupies nothing that
// other calls need. A call that is refused before that point recalls nothing.
//
// # Exports and clients
//
// The exports form an immutable set; SetExports replaces it with another. A
// call uses the set that is current when the call sees its first handle, and
// holds that export's file system until the call ends. The client entry that
// applies to a peer is looked up once for each connection and export (package
// exports), and remembered in oncrpc.Peer.
//
// # Life of slices
//
// Arguments alias the call message and are used only until the procedure
// returns; the data of a WRITE goes to the file system without a copy. The data
// of a READ is read into a lent buffer that then belongs to the transport.
//
// The package must not know a transport, nor how a file system is stored.
package nfsserver
