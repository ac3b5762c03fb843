package rpcsec

import "sync"

// A sequenceWindow records the sequence numbers received in a context (RFC 2203, Section
// 5.3.3.1): the highest, and those in the window below it. The zero value has none.
type sequenceWindow struct {
	mu      sync.Mutex
	started bool
	last    uint32
	seen    [window / 64]uint64 // a bit for each number, by its remainder
}

// isFresh reports whether seq is neither below the window nor seen before.
func (s *sequenceWindow) isFresh(seq uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isFreshLocked(seq)
}

func (s *sequenceWindow) isFreshLocked(seq uint32) bool {
	switch {
	case !s.started || seq > s.last:
		return true
	case s.last-seq >= window:
		return false
	}
	return s.seen[seq/64%(window/64)]&(1<<(seq%64)) == 0
}

// markSeen records seq as seen, and moves the window forward. It returns false if seq is
// not fresh. The caller must have verified the message first: otherwise a forged number
// could move the window beyond the client's.
func (s *sequenceWindow) markSeen(seq uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isFreshLocked(seq) {
		return false
	}
	switch {
	case !s.started || seq > s.last && seq-s.last >= window:
		clear(s.seen[:])
		s.started, s.last = true, seq
	case seq > s.last:
		for s.last < seq {
			s.last++
			s.seen[s.last/64%(window/64)] &^= 1 << (s.last % 64)
		}
	}
	s.seen[seq/64%(window/64)] |= 1 << (seq % 64)
	return true
}
