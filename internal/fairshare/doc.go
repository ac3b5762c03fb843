// Package fairshare shares out a server's scarce resources between parties,
// which are the peers of one address (package origin). One resource is memory
// for calls: no party gets more than a part, and no connection more than a part
// of that. Another is places for connections: a party with too many gives some
// back. Places are for calls that wait: a party gets half of what is left. While
// calls wait for memory, a Press makes the server look for peers that hold some
// and are stuck.
//
//	call ─▶ Part: the connection's, the party's ─▶ Memory: everybody's ─▶ runs
//	                                                    │ has to wait
//	                                                    ▼
//	                                         Press ─▶ stuck peers? ─▶ cut
//
// The package must not know connections, nor the effect of calls.
package fairshare
