// Package fairshare shares out what a server has little of between parties, which
// are the peers of one address (package origin): memory for calls, of which no
// party gets more than a part, and no connection more than a part of that; and
// places for connections, which a party that has most of them gives back. Where
// calls wait for memory, a Press has the server look for peers that hold some and
// do not move.
//
//	call ─▶ Part: the connection's, the party's ─▶ Memory: everybody's ─▶ runs
//	                                                    │ has to wait
//	                                                    ▼
//	                                         Press ─▶ who stands? ─▶ cut
//
// It must not know what a connection is, nor what a call does.
package fairshare
