// Package nfs4state is the state of an NFS version 4.0 to 4.2 server: client
// records, sessions with their slots and kept replies, stateids, opens with
// share reservations, byte-range locks, and leases (RFC 8881, Sections 2.4, 2.10,
// 8 and 9).
//
//	State ─▶ client record ─▶ Session ─▶ slot: sequence ID, kept reply
//	  │            │
//	  │            └─▶ Open ─▶ file: share reservations and locks of all clients
//	  │                 ▲ └─▶ lockSet: the locks of a lock-owner through the Open
//	  └─ stateid ───────┴─────▲
//
// The package decides; the caller acts. A method takes arguments as decoded,
// changes the state, and returns the status for the wire. Time comes from
// Config.Now, and the descriptors that an Open carries go back through
// Config.Release, which is never called under a lock.
//
// # Delegations
//
// A Delegation has a stateid and a File of its own, and outlasts the opens of its
// object. The caller makes sure that a change of the object calls Recall first.
// The File of a Delegation that was revoked, or whose client has ended, is released
// when the journal knows of that: others may change the object then.
//
// # Version 4.0
//
// Clients of version 4.0 have no sessions. A Session without slots stands for such
// a client, from ByClientID or ByStateID until Leave. In place of slots, open-owners
// and lock-owners have sequence numbers and the last reply (RFC 7530, Section
// 9.1.7): an operation runs between BeginTurn and EndTurn. The other methods are
// those of all versions.
//
// # Silent clients
//
// A client whose lease has expired keeps its state as a courtesy: until another
// client needs part of that state, or until Config.Courtesy has passed. The client
// then ends as a whole, unless one of its calls runs. Its next call finds
// NFS4ERR_BADSESSION, and CREATE_SESSION NFS4ERR_STALE_CLIENTID. A client with
// locks on the server's host ends two leases after its last call, because nobody
// tells when these locks keep a process of the host out.
//
// # Restarts
//
// Config.Journal has on stable storage which clients have state, and of which
// kinds. A change of a record enters a queue while State.mu is held. A grant needs
// the records of its client, and of the clients that have lost the object: if these
// have not been written, the call lets State.mu go, waits for the journal, and is
// checked again from the start. So no client loses a grant, and none can reclaim
// state that another was granted since. After a restart clients with a record may
// reclaim; grace.go lists the calls that wait for them.
//
// # Locks on the host
//
// Byte-range locks are locked on the server's host too, by Lock.Host: for each
// byte the strongest lock of a client. A LOCK that the table permits is granted
// when the host has it. A call that takes locks away changes the table, then the
// host, and returns when both are done; for clients that are ended by others,
// goroutines do the latter.
//
// # Locks
//
// State.mu guards client records, opens and locks, and is never held while the
// host is asked or the journal is written. hostFile.mu is held, for one object,
// during the former; it is taken before State.mu and ledger.mu. Neither of these
// two is taken while the other is held. Session.mu guards slots, and is held for a few
// assignments only: SEQUENCE takes no other lock. State.mu is taken before. Its
// holder may take Session.mu of several sessions, so that a client ends only if
// none of its sessions is used meanwhile.
//
// The package must not know sockets, file systems or wire forms of calls.
package nfs4state
