// Package relief lets the goroutine that reads a connection also serve the
// calls that it has read: handing a call to another goroutine costs more than
// answering a short one.
//
//	reader ── reads ─▶ call ── Begin ─▶ serves ─▶ End ─▶ reads on
//	                                      │ takes long, says the Watchdog
//	                                      ▼
//	                        another goroutine reads on; this one
//	                        only finishes its call
//
// A call cannot be known to be short: it may have to wait for a disk, or for
// ever. The Watchdog therefore relieves a reader that does not come back, and
// a Kind remembers which calls were slow lately, for others to serve.
//
// The package must not know connections or calls.
package relief
