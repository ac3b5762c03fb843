package rpcsec

import "sync"

// A sequence is the sequence numbers that a server has seen of a context (RFC
// 2203, Section 5.3.3.1): the highest, and which of the window below it. The zero
// value has seen none.
type sequence struct {
	mu   sync.Mutex
	any  bool
	last uint32
	seen [window / 64]uint64 // a bit for each number, by its remainder
}

// fresh reports whether seq is neither below the window nor seen.
func (s *sequence) fresh(seq uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freshLocked(seq)
}

func (s *sequence) freshLocked(seq uint32) bool {
	switch {
	case !s.any || seq > s.last:
		return true
	case s.last-seq >= window:
		return false
	}
	return s.seen[seq/64%(window/64)]&(1<<(seq%64)) == 0
}

// take notes that seq was seen, and moves the window forward. It returns false
// if seq is not fresh. The caller must have verified the message first: else a
// forged number would move the window away from the client's.
func (s *sequence) take(seq uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.freshLocked(seq) {
		return false
	}
	switch {
	case !s.any || seq > s.last && seq-s.last >= window:
		clear(s.seen[:])
		s.any, s.last = true, seq
	case seq > s.last:
		for s.last < seq {
			s.last++
			s.seen[s.last/64%(window/64)] &^= 1 << (s.last % 64)
		}
	}
	s.seen[seq/64%(window/64)] |= 1 << (seq % 64)
	return true
}
