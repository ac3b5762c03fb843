// Package fairshare divides a server's scarce resources among parties. A party is a
// client group: all peers with one address (PartyOf). One resource is memory for
// calls: no party gets more than a part, and no connection more than a part of
// that. Another is connections: a party with too many must close some. Places limit
// calls that wait: a party gets half of the free ones. While calls wait for memory,
// a Press makes the server look for peers that hold some and are stuck.
//
//	call ─▶ Part: the connection's, the party's ─▶ Memory: everybody's ─▶ runs
//	                                                    │ has to wait
//	                                                    ▼
//	                                         Press ─▶ stuck peers? ─▶ cut
//
// The package must not depend on connections, nor on the effect of calls.
package fairshare
