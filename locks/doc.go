// Package locks keeps the byte-range locks of objects, for the owners of any
// protocol, with the semantics of POSIX: an owner has each byte locked shared,
// exclusively or not at all, as its last call for that byte says. So locks of
// one owner split, merge, and change their kind in place.
//
//	Object ─▶ trees of shared and of exclusive locks, by offset
//	   ▲            ▲
//	Owner ──────────┴─ sorted locks of the owner
//	   ▲
//	 Part ─ the owner's locks of one way, such as by one open
//
// The package decides nothing about time, and has no lock of its own: the
// caller serializes calls for one object. Lock does not look for conflicts: the
// caller asks Conflict first, and may remove the locks that are in the way.
//
// Among n locks of an object, of any owners, Conflict takes O(log n) steps.
// Lock and Unlock take O(log n) steps, and as many again for each lock that the
// call removes.
//
// The package must not know protocols, clocks or file systems.
package locks
