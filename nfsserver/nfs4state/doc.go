// Package nfs4state holds the state of an NFSv4.0 to NFSv4.2 server: client
// records, sessions with their slots and cached replies, stateids, opens with
// share reservations, byte-range locks, and leases (RFC 8881, Sections 2.4, 2.10,
// 8 and 9).
//
//	State ─▶ client record ─▶ Session ─▶ slot: sequence ID, cached reply
//	  │            │
//	  │            └─▶ Open ─▶ file: all holders' share reservations and locks
//	  │                 ▲ └─▶ lockSet: the locks of a lock-owner through the Open
//	  ├─ stateid ───────┴─────▲
//	  └─▶ MachineRecord ─▶ machineFile ─▶ file
//
// The package decides; the caller acts. A method takes decoded arguments,
// changes the state, and returns the status to send. Config.Now supplies the
// time. Config.Release gets the descriptors that Opens carry; it is never
// called with a lock held.
//
// # Delegations
//
// A Delegation has its own stateid and File, and outlasts its object's opens. The
// caller must call Recall before a change of the object. If a Delegation was
// revoked or its client was removed, the File is released when the journal has
// recorded that: then others may change the object.
//
// # Version 4.0
//
// NFSv4.0 clients have no sessions. A Session without slots represents such a
// client, from ByClientID or ByStateID until Leave. Instead of slots, open-owners
// and lock-owners have sequence numbers and the last reply (RFC 7530, Section
// 9.1.7): an operation runs between BeginTurn and EndTurn. All other methods are the
// same for all versions.
//
// # Version 3
//
// A Machine, a client of the Network Lock Manager, has no stateids and no lease. Its locks and SHAREs
// belong to the file directly (machineFile). A holder is what a client record and a MachineRecord
// have in common: conflicts, limits, waiting owners and the journal do not distinguish them.
//
// # Silent clients
//
// A client whose lease has expired keeps its state as a courtesy: until another client
// needs part of that state, or until Config.Courtesy has passed. Then the client is
// removed with all its state, unless one of its calls is running. Its next call gets
// NFS4ERR_BADSESSION, and CREATE_SESSION gets NFS4ERR_STALE_CLIENTID. Sweep removes a
// client with locks on the server's host if a process on the host waits for one of
// these (Config.LockWaited).
//
// # Restarts
//
// Config.Journal stores which clients have state, and which kinds. Changed records
// are queued while State.mu is held. A grant depends on its client's record, and on
// the records of clients that have lost state of the object: if these are not yet
// stable, the call unlocks the State, waits for the journal, and is checked again
// from the start. Therefore no client loses a grant, and none can reclaim state
// that has since been granted to another. After a restart clients with a record may
// reclaim; grace.go lists the calls that wait for them.
//
// # Locks on the host
//
// Byte-range locks are also set on the server's host, by Lock.Host: for each
// byte the strongest client lock. A LOCK that the table permits is granted when
// the host has set it. A call that removes locks changes the table, then the
// host, and returns when both are done. If another client's call removes a
// client, goroutines update the host.
//
// # Locks
//
// OPEN, LOCK, LOCKU, CLOSE, DELEGRETURN and the calls of Machines lock only a part of the State
// (statePart), which guards what their client or Machine has, and the fileShard of their object, which guards the opens, share
// reservations, byte-range locks, delegations and queue of the file. Calls of different clients for
// different files therefore use no common mutex; what all count together is atomic.
//
// State.mu locks the State as a whole: no part is locked at the same time. It guards the table of
// clients, whether a client has been removed, the records for the journal, and the queues of owners
// that wait for locks, which the holder of a part may read. A call that has locked only a part and
// must change any of these (it needs a record, waits for a lock, conflicts with a silent client, or
// is near a limit) returns statusNeedsState, and starts again with State.mu. So do all calls in the
// grace period, and those of NFSv4.0 clients.
//
// A goroutine locks mutexes in this order (lockRank):
//
//	hostFile.mu     one; held during calls to the host for one object
//	State.mu        never held during calls to the host or writes to the journal
//	statePart.mu    one, instead of State.mu
//	fileShard.mu    one, with a part
//	Session.mu      held for a few assignments; SEQUENCE locks nothing else
//	ledger.mu, and those of slab and specials: one, with no other call
//
// The holder of State.mu may lock several sessions, so that a client is removed only if none of
// its sessions is used concurrently.
//
// A call that visits very many entries unlocks the State after maxEntriesPerHold entries, and lets
// waiting calls run first, so a removed client's state is removed in steps. A call that conflicts
// with some of that state helps (endAllState), and starts again.
//
// The package must not know sockets, file systems or the encoding of calls.
package nfs4state
