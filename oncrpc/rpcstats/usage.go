package rpcstats

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Usage counts the use of one thing, such as an export or a client: calls with their latency
// and outcome, and bytes of file data. Its methods are safe for concurrent use, and those that
// count allocate no memory. The zero value is ready for use.
type Usage struct {
	shards [shardCount]usageShard
	failed outcomeCounts
}

// A usageShard is a copy of these counters, three cache lines long. Those that a short call
// changes are together.
type usageShard struct {
	operations    atomic.Uint64
	read, written atomic.Uint64
	nanoseconds   uint64
	took          [len(LatencyBounds) + 1]uint64
	_             [8]byte
}

// UsageStats is a snapshot of a Usage.
type UsageStats struct {
	Calls         uint64
	Operations    uint64        // operations in COMPOUNDs
	Read, Written uint64        // bytes of file data
	Duration      time.Duration // sum over all calls; 0 for a client
	Took          [len(LatencyBounds) + 1]uint64
	Failed        []Failures // calls by outcome
}

// CountData counts bytes of file data that a peer has read and written.
func (u *Usage) CountData(peer *oncrpc.Peer, read, written uint64) {
	s := &u.shards[shardOf(peer)]
	if read > 0 {
		s.read.Add(read)
	}
	if written > 0 {
		s.written.Add(written)
	}
}

// CountOperations counts n operations of a peer's COMPOUND.
func (u *Usage) CountOperations(peer *oncrpc.Peer, n uint64) {
	u.shards[shardOf(peer)].operations.Add(n)
}

// countCall counts a call with the latency class in the locked shard i.
func (u *Usage) countCall(i, class int, o Outcome) {
	u.shards[i].took[class]++
	if o != (Outcome{}) {
		u.failed.countFailure(o)
	}
}

// Stats returns the counts so far.
func (u *Usage) Stats() UsageStats {
	var sum UsageStats
	for i := range u.shards {
		s := &u.shards[i]
		shardLocks[i].Lock()
		took, nanoseconds := s.took, s.nanoseconds
		shardLocks[i].Unlock()
		for class, n := range took {
			sum.Took[class] += n
			sum.Calls += n
		}
		sum.Duration += time.Duration(nanoseconds)
		sum.Operations += s.operations.Load()
		sum.Read += s.read.Load()
		sum.Written += s.written.Load()
	}
	sum.Failed = u.failed.listFailures()
	return sum
}

// busyTime estimates the sum of the calls' durations from their latency classes.
func (s *UsageStats) busyTime() (sum time.Duration) {
	for class, n := range s.Took {
		sum += time.Duration(n) * LatencyBounds[min(class, len(LatencyBounds)-1)]
	}
	return sum
}
