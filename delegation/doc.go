// Package delegation is this project's own extension of NFS version 3: a client
// keeps data, attributes and names cached, and opens, validates and closes cached
// files by atomic operations on counters in the server's memory, without a call.
// docs/delegation.md is its specification.
//
//	client                                                 server
//	Holder ── ACQUIRE(handle, types) ─────────────────────▶ Grantor
//	       ◀─ slot, generation, lease, attributes ─────────
//	       ── FetchAdd on the word of the slot ───▶ region of counters
//	       ── FetchAdd on word 0: the lease ──────▶ of the connection
//	       ◀─ Immediate Data, kind 1: recall ──────────────
//	       ── Immediate Data, kind 2: returned ───────────▶
//
// Three parts: the wire forms (AcquireArgs, AcquireRes, Immediate, Word), the
// Grantor, which is the server's state over all connections, and the Holder, which
// is the client's on one connection.
//
// # Time and effects
//
// Grantor and Holder are state machines. They wait for nothing, start nothing and
// read no clock. Each call that tells of an event takes the time, as the reading
// of a clock that never goes back and that goes on while the machine sleeps
// (CLOCK_BOOTTIME). What has to be done outside comes back as a value (Effects;
// an Op or Immediate to be posted), and is for the caller to do when the call has
// returned; effects of calls that several goroutines make may be done in any
// order.
//
// Either has one lock of its own inside, so its methods may be called by several
// goroutines. A change where nobody holds anything takes no lock (Grantor.Change),
// and neither does the question whether cached things may be served
// (Holder.Trusts).
//
// # Life of slices
//
// What Decode returns aliases the Reader's input. Grantor and Holder keep nothing
// of the slices that they are given.
//
// The package must not know NFS but for the length of its attributes, nor a file
// system, a transport, or how a call is made.
package delegation
