// Package locks keeps objects' byte-range locks, for any protocol's owners, with POSIX semantics:
// an owner has each byte locked shared, exclusively or not at all, as its last call for that byte
// says. So locks of one owner split, merge, and change their kind in place.
//
//	Object ─▶ trees of shared and of exclusive locks, by offset
//	   ▲            ▲
//	Owner ──────────┤ tree of the owner's locks
//	   ▲            │
//	 Part ──────────┘ tree of the owner's locks of one way, such as by one open
//
//	Queue ─▶ trees of the locks that owners wait for
//
// The package decides nothing about time, and has no lock of its own: the caller serializes calls
// for one object. Lock does not look for conflicts: the caller asks Conflict first, and may remove
// the conflicting locks.
//
// With n locks on an object, Conflict takes O(log n) steps. Lock, Unlock and Drop take O(log n)
// steps, and as many again for each lock that the call removes. Finding one lock in a Part, or one
// Request in a Queue, takes O(log n) steps too.
//
// The package must not know protocols, clocks or file systems.
package locks
