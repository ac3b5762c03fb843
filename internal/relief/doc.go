// Package relief lets the goroutine that reads a connection also serve the calls
// that it has read: handing a call to another goroutine costs more than serving a
// short one.
//
//	reader ── reads ─▶ call ── Begin ─▶ serves ─▶ End ─▶ reads on
//	                                      │ takes long, says the Watchdog
//	                                      ▼
//	                        another goroutine reads on; this one
//	                        only finishes its call
//
// A call cannot be known to be short: it may have to wait for a disk, or forever.
// The Watchdog therefore relieves a reader that does not return, and a Kind records
// which calls were slow lately, so that others serve them.
//
// The package must not depend on connections or calls.
package relief
