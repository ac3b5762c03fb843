// Package realm is the common part of the programs of an NFS server of any
// version: the exports in force, the identity of a peer and the rights of a
// caller, sealed file handles, permits to use storage, and the recall of
// delegations before a change.
//
//	program ─Request─▶ handle ▶ export, client, caller, permit ─▶ vfs.FS
//	                   change ▶ delegations recalled ─────────────▲
//
// A program embeds a Request in its own type, and asks the Request before a file
// system. A refusal is a Denial or the error of a file system; each program
// has its own words for both.
//
// # File handles
//
// A handle consists of a version byte, four bytes with the export's identity
// (Export.ID), the file system's own handle, and a seal of these, made with a
// key (Config.Key):
//
//	02 │ id id id id │ vfs.Handle, at most 44 bytes │ seal, 9 bytes
//
// So clients can use only handles that the server has given out; handles are no
// secret between clients. The seal is a truncated AES-256-CMAC. The server checks
// the seal before it trusts anything else in the handle. A handle that cannot be of this server is BadHandle. Stale is a
// handle sealed with another key, as after the loss of the key, a handle of an
// export that no longer exists, or of a removed object.
//
// A handle is valid as long as the key, the export's identity and the object
// stay. A server that exports another directory under an old name must give the
// export another identity.
//
// An object that a local process has moved out of the export's directory stays
// accessible to clients that have its handle, as with knfsd. If the client's
// options have subtree_check and the file system supports it (vfs.Container),
// the error is ESTALE, also for an object to which the caller has no path.
//
// # Slow storage
//
// A call waits for its file system for as long as necessary. File systems work
// on 1,024 calls at once, over all transports. One file system may have half of
// the calls that are left, and a party (an IPv4 address, or 64 bits of an IPv6
// address) half of these (see permits). If half of very many calls have
// occupied a file system for very long, new calls are refused with Later before
// anything is done (see overload).
//
// # Delegations
//
// Clients of this project may hold delegations of objects by delegation
// counters (Config.Grants). Every procedure that changes an object first
// recalls its delegations, by one of the Before methods. A call waits for that
// for at most a second, and then fails with Later. A waiting call uses no storage
// and occupies nothing that other calls need. A call that is refused
// before that point recalls nothing.
//
// A client of version 4 may also have a delegation for writing (Config.Holders): the
// file system then has neither the data nor the size of the file. Readers call
// Request.BeforeRead, and attributes come from Request.GetAttr, which asks the client.
//
// # Exports and clients
//
// The exports form an immutable set; SetExports replaces it with another. A
// call uses the set that is current when the call sees its first handle, and
// holds that export's file system until the call ends. The client entry that
// applies to a peer is looked up once for each connection and export (package
// exports), and remembered in oncrpc.Peer.
//
// The package must not know the procedures of any version, nor a transport, nor
// how a file system is stored.
package realm
