// Package discover gives clients facts about servers over InfiniBand's
// unreliable services (package roce) that they could otherwise only find more
// slowly: the servers and their exports, the restart of a server, and a
// server's current activity.
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
// The messages are single UD datagrams; docs/roce.md has their layout. Any of them
// may be lost, and no caller may depend on one.
//
// # Against abuse
//
// A reply is never longer than its request, each request has at most one reply, and
// the number per second is bounded: a forged source address therefore gives no
// amplification. A request that makes the server store or send something needs a
// cookie, which only a receiver at the address can know. Tables are bounded and
// their entries expire. A notice carries a token that the client chose, and is only
// a hint anyway.
//
// # Rooms
//
// Messages and counters (message.go, query.go, register.go, watch.go, counters.go)
// are codecs. A Responder turns requests into replies, without network and clock.
// Server and Port have the queue pairs.
//
// The package must not depend on NFS, nor on the source of the facts that it sends.
package discover
