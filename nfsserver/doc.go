// Package nfsserver is the programs of an NFS server: NFS version 3 and MOUNT
// version 3 (RFC 1813), and NFSACL version 3 beside them, over any number of
// exported file systems.
//
//	oncrpc.Mux ─Call─▶ nfsProgram ─▶ procedure ─FS─▶ vfs.FS of the export
//	               │                 handle ▶ export, client, caller, name
//	               ├─▶ aclProgram    the same, for vfs.ACLs
//	               └─▶ mountProgram  path ▶ handle
//
// It decides what a call may do before a file system sees it: which export its
// handle belongs to, whether the client may use that, in whose name the call
// is done, and whether the export can be changed. It turns attributes and
// errors of package vfs into those of the protocol.
//
// # File handles
//
// A handle is an octet with the format's version, four with the export's
// identity (Export.ID), those of the file system's own handle, and a seal of
// all that, which is made with a key (Config.Key):
//
//	02 │ id id id id │ vfs.Handle, at most 44 octets │ seal, 12 octets
//
// So a client can use the handles alone that it was given, or that were given
// to another: handles are no secret between clients. The seal is AES-256-CMAC,
// cut; it is checked before anything else is believed. What cannot be a handle
// of this server is NFS3ERR_BADHANDLE. NFS3ERR_STALE is a handle with another
// key's seal, as after the loss of the key, of an export that is not there any
// more, or of an object that is gone.
//
// As long as the key, the export's identity and the object stay, a handle does.
// Whoever exports another directory under an old name must give it another
// identity.
//
// An object that a local process has moved out of the export's directory stays
// in reach of those who have its handle, as with knfsd, unless the client's
// options have subtree_check and the file system can tell (vfs.Container): then
// it is NFS3ERR_STALE, and so is what the caller has no path to.
//
// # Slow storage
//
// A call waits for its file system as long as that takes. File systems work on 1,024
// calls at once, whatever the transports; one of them may have half of what is left,
// and of that a party, which is an IPv4 address or 64 bits of an IPv6 one, half (see
// permits). Where half of very many calls have kept a file system for very long, new ones are answered NFS3ERR_JUKEBOX
// before anything is done (see patience), and so are those that the host puts off
// itself. Such answers are not kept for retries.
//
// # What clients hold
//
// Clients of this project may hold objects by delegation counters: with Config.Grants
// the program of docs/delegation.md is there for them, and every procedure that changes
// something has it given back first. A call that waits for that, for a second at most
// before it is NFS3ERR_JUKEBOX, waits for no storage, and holds nothing that others
// could want. What has been refused by then recalls nothing.
//
// # Exports and clients
//
// What is exported is a set that does not change; SetExports puts another in its
// place. A call takes the set that it finds when it sees its first handle, and
// holds that export's file system until it ends. Who a peer is, of an export's
// clients, is asked once for a connection and an export (package exports), and
// remembered in oncrpc.Peer.
//
// # Life of slices
//
// Arguments alias the call message and are used only until the procedure
// returns; the data of a WRITE go to the file system as they came. Data of a
// READ are read into a lent buffer that then belongs to the transport.
//
// The package must not know a transport, nor how a file system is stored.
package nfsserver
