// Package exportset is the part that an NFS server's programs of all versions
// share: the current exports, a peer's identity and a caller's rights,
// sealed file handles, permits to use storage, and recalling
// delegations before a change.
//
//	program ─Request─▶ handle ▶ export, client, caller, permit ─▶ vfs.FS
//	                   change ▶ delegations recalled ─────────────▲
//
// A program embeds a Request in its own type, and calls the Request before a file
// system. The error is a Denial or a file system error; each program
// has its own statuses for both.
//
// # File handles
//
// A handle consists of a version byte, four bytes with the export's identity
// (Export.ID), the file system's own handle, and a seal over these, made with a
// key (Config.Key):
//
//	02 │ id id id id │ vfs.Handle, at most 44 bytes │ seal, 9 bytes
//
// So clients can use only handles that the server has given out; handles are not
// secret between clients. The seal is a truncated AES-256-CMAC. The server checks
// the seal before it trusts anything else in the handle. A handle that this server
// cannot have made is BadHandle. A handle is Stale if it was sealed with another key, as
// after the loss of the key, or if its export or object no longer exists.
//
// A handle is valid as long as the key, the export's identity and the object
// stay. A server that exports another directory under an old name must give the
// export another identity.
//
// An object that a local process has moved out of the export's directory stays
// accessible to clients that have its handle, as with knfsd. If the client's
// options have subtree_check and the file system supports it (vfs.Container),
// the error is ESTALE, even for an object to which the caller has no path.
//
// # Slow storage
//
// A call waits for its file system for as long as necessary. File systems work
// on 1,024 calls at once, over all transports. One file system may have half of
// the calls that are left, and a client group (an IPv4 address, or 64 bits of an IPv6
// address) half of these (see permits). If half of very many calls have
// occupied a file system for very long, new calls are rejected with Later before
// anything is done (see overload).
//
// # Delegations
//
// This project's clients may hold delegations of objects with delegation
// counters (Config.Grants). Every procedure that changes an object first
// recalls its delegations, with one of the Before methods. A call waits for that
// for at most a second, and then fails with Later. A waiting call uses no storage
// and occupies nothing that other calls need. A call that is rejected
// before that point recalls nothing.
//
// An NFSv4 client may also have a write delegation (Config.Holders): the
// file system then has neither the data nor the size of the file. Readers call
// Request.BeforeRead, and attributes come from Request.GetAttr, which queries the client.
//
// # Exports and clients
//
// The current exports form an immutable Snapshot; SetExports replaces it with another. A
// call uses the snapshot that is current when it opens its first handle, and
// holds that export's file system until the call ends. The client entry that
// applies to a peer is looked up once for each connection and export (package
// exports), and cached in oncrpc.Peer.
//
// # Locks on the host
//
// Clients of all versions have their locks in one table (package nfs4state), and the host holds
// them too, if the file system is a vfs.Locker: Request.HostLocks. Its statuses are those of
// NFSv4, like the table's.
//
// The package must not depend on the procedures of any version, on a transport, or on
// how a file system is stored.
package exportset
