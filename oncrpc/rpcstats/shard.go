package rpcstats

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// shardCount is the number of copies of the per-call counters. Connections use different
// shards to avoid false sharing.
const shardCount = 8

// shardLocks guard the per-call counters: each lock those in all shards with its index. A call
// changes its procedure's, its export's and its client's counters under one lock, which takes less
// time than as many atomic additions.
var shardLocks [shardCount]shardLock

// A shardLock is padded to a cache line.
type shardLock struct {
	sync.Mutex
	_ [56]byte
}

// shardOf returns the index of the shard that counts a peer's calls.
func shardOf(peer *oncrpc.Peer) int {
	if peer == nil {
		return 0
	}
	return int(peer.Addr.Port() / 2 % shardCount) // Linux prefers ports with one parity for connections
}

// lockShard locks the shard that counts a peer's calls, or another one if that is locked, and
// returns its index. It waits only if all are locked.
func lockShard(peer *oncrpc.Peer) int {
	first := shardOf(peer)
	for n := range shardCount {
		if i := (first + n) % shardCount; shardLocks[i].TryLock() {
			return i
		}
	}
	shardLocks[first].Lock()
	return first
}
