// Package delegation is this project's own extension of NFS version 3. A client
// keeps data, attributes and names cached, and opens, validates and closes
// cached files without a call, by atomic operations on counters in the server's
// memory. docs/delegation.md is its specification.
//
//	client                                                 server
//	Holder ── ACQUIRE(handle, types) ─────────────────────▶ Grantor
//	       ◀─ slot, generation, lease, attributes ─────────
//	       ── FetchAdd on the word of the slot ───▶ region of counters
//	       ── FetchAdd on word 0: the lease ──────▶ of the connection
//	       ◀─ Immediate Data, kind 1: recall ──────────────
//	       ── Immediate Data, kind 2: returned ───────────▶
//
// The package has three parts: the wire forms (AcquireArgs, AcquireRes,
// Immediate, Word), the Grantor, which is the server's state over all
// connections, and the Holder, which is the client's state on one connection.
//
// # Time and effects
//
// Grantor and Holder are state machines. They wait for nothing, start no
// goroutine and read no clock. Each call that reports an event takes the time:
// the reading of a monotonic clock that continues while the machine sleeps
// (CLOCK_BOOTTIME). A call returns its outside effects as a value (Effects; an
// Op or Immediate to post), and the caller must carry out the effects after the
// call has returned. The effects of concurrent calls may be carried out in any
// order.
//
// Grantor and Holder each have one internal lock, so their methods are safe for
// concurrent use. A change takes no lock while no client holds anything
// (Grantor.Change), and neither does the test whether cached data may be served
// (Holder.Trusts).
//
// # Life of slices
//
// The results of Decode alias the Reader's input. Grantor and Holder do not
// retain the slices passed to them.
//
// The package's only knowledge of NFS is the length of its attributes. The
// package must not know a file system, a transport, or how calls are made.
package delegation
