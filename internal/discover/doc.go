// Package discover tells clients of a server, on InfiniBand's unreliable services
// (package roce), what they could find out otherwise but slower: where servers are
// and what they export, that one has been restarted, and what one does just now.
//
//	finder ── Query ──▶ server      unicast, or to a multicast group
//	       ◀─ Answer ──             boot, ports, exports
//
//	mount  ── Register ▶ server     renewed every few minutes
//	       ◀ Registered
//	       ◀─ Notice ── server      once it has been restarted
//
//	top    ── Watch ───▶ server     renewed before the lease ends
//	       ◀ Watching ─
//	       ◀═ RDMA WRITE with immediate data, by UC, in the interval asked for
//
// The messages are single datagrams of UD; docs/roce.md has their layout. Nothing
// of it is certain to arrive, and nobody may depend on it.
//
// # Against abuse
//
// An answer is never longer than its request, and each request has one at most, so
// many in a second: who asks in another's name multiplies nothing. What makes the
// server remember or send something needs a cookie, which only who receives at an
// address can know. Tables are bounded and their entries expire. A notice carries a
// token of the client's, and is a hint anyway.
//
// # Rooms
//
// Messages and counters (message.go, query.go, register.go, watch.go, counters.go)
// are codecs. A Responder turns requests into answers, with no network and no clock.
// Server and Port have the queue pairs.
//
// The package must not know NFS, nor where what it tells comes from.
package discover
