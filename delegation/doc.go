// Package delegation implements this project's own extension to NFS version 3.
// A client caches data, attributes and names, and opens, validates and closes
// cached files without a call, by atomic operations on counters in the server's
// memory. docs/delegation.md is the specification.
//
//	client                                                 server
//	Holder ── ACQUIRE(handle, types) ─────────────────────▶ Grantor
//	       ◀─ slot, generation, lease, attributes ─────────
//	       ── FetchAdd on the slot's word ─────────▶ region of counters
//	       ── FetchAdd on word 0: the lease ──────▶ (per connection)
//	       ◀─ Immediate Data, kind 1: recall ──────────────
//	       ── Immediate Data, kind 2: returned ───────────▶
//
// The package has three parts: the wire forms (AcquireArgs, AcquireRes,
// Immediate, the words), the Grantor, which is the server's state for all
// connections, and the Holder, which is the client's state for one connection.
//
// # Time and effects
//
// Grantor and Holder are state machines. They do not block, start no goroutines
// and read no clock. Each call that reports an event has a time argument, from
// a monotonic clock that continues during suspend (CLOCK_BOOTTIME). A call
// returns its external effects as a value (Effects; an Op or Immediate to
// post), and the caller must perform them after the call has returned. The
// effects of concurrent calls may be performed in any order.
//
// Grantor and Holder each have one internal lock, so their methods are safe for
// concurrent use. The Grantor knows only changes of objects that are held: the
// caller's table of objects (HeldObject) finds them, and delays them until
// Effects.Ended. Holder.Trusts, which tests whether cached data may be served,
// takes no lock.
//
// # Lifetime of slices
//
// The results of Decode alias the Reader's input. Grantor and Holder do not
// retain the slices passed to them.
//
// The package's only knowledge of NFS is the length of its attributes. The
// package must not depend on a file system, on a transport, or on how calls are
// sent.
package delegation
