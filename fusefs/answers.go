package fusefs

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// answers are the last replies that tell threads of names that are lent. The kernel
// does not always keep a directory from being changed while it takes a name from the
// reply, and may believe the name after it was told not to: whose reply is on its way is
// waited for first. A thread that makes another request has taken the reply before.
type answers struct {
	mu  sync.Mutex
	all map[uint32]answer // by thread

	some atomic.Bool // all has some: else no request needs the lock
}

// An answer is such a reply.
type answer struct {
	dir    *node
	unique uint64 // the request's
	at     time.Time
}

// add notes a reply to a thread.
func (s *answers) add(thread uint32, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxAnswers {
		for t, b := range s.all { // of threads that are gone, most likely
			if a.at.Sub(b.at) > noteWait {
				delete(s.all, t)
			}
		}
	}
	s.all[thread] = a
	s.some.Store(true)
}

// next notes that a thread makes another request.
func (s *answers) next(thread uint32) {
	if !s.some.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, thread)
	s.some.Store(len(s.all) > 0)
}

// in returns the replies that tell of names in dir.
func (s *answers) in(dir *node) map[uint32]answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some map[uint32]answer
	for t, a := range s.all {
		if a.dir == dir {
			if some == nil {
				some = make(map[uint32]answer)
			}
			some[t] = a
		}
	}
	return some
}

// taken returns when the kernel has taken the replies that tell of names in dir.
func (m *Mount) taken(dir *node) {
	for m.untaken(dir) {
		time.Sleep(settlePoll)
	}
}

// untaken tells whether a thread may have yet to take a reply: the kernel waits for
// that still, or has it and the thread has not run since, as far as one can see.
func (m *Mount) untaken(dir *node) bool {
	for thread, a := range m.answers.in(dir) {
		age := time.Since(a.at)
		if age < settleTime || age < longSettle && running(thread) || m.underway(a.unique) {
			return true
		}
	}
	return false
}

// underway tells whether the kernel still waits for the answer to a request. It takes
// what is written here for an answer to an interruption of that, which changes nothing.
func (m *Mount) underway(unique uint64) bool {
	const headLen, interrupt = 16, 1
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, headLen), headLen)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint64(b, unique|interrupt)
	_, err := unix.Write(m.notifyFD, b)
	return err == nil
}
