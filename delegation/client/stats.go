package client

import "sync/atomic"

// Stats counts what a Set did, but for Held, which is how things are.
type Stats struct {
	Held     int64  // objects of which anything is held
	Asked    uint64 // ACQUIREs sent
	Granted  uint64
	Refused  uint64 // by the server, for whatever reason
	Recalled uint64
	Served   uint64 // uses that took no call
	Atomics  uint64 // atomic operations that a use waited for
}

type counts struct {
	held                                               atomic.Int64
	asked, granted, refused, recalled, served, atomics atomic.Uint64
}

// Stats returns the counts. Those of the nil Set are all zero.
func (s *Set) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	c := &s.counts
	return Stats{
		Held: c.held.Load(), Asked: c.asked.Load(), Granted: c.granted.Load(), Refused: c.refused.Load(),
		Recalled: c.recalled.Load(), Served: c.served.Load(), Atomics: c.atomics.Load(),
	}
}
