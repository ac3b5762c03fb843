package fusefs

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// answers holds, by thread, the last reply that told the thread of a lent name.
// The kernel does not always prevent changes of a directory while it takes a
// name from a reply, and may then believe the name after its invalidation. An
// invalidation therefore waits for such replies in flight. A thread that makes
// another request has taken its last reply.
type answers struct {
	mu  sync.Mutex
	all map[uint32]answer // by thread

	some atomic.Bool // all is not empty; if false, requests skip the lock
}

// An answer is a reply that told a thread of a lent name.
type answer struct {
	dir    *node
	unique uint64 // number of the request
	at     time.Time
}

// add notes a reply to a thread.
func (s *answers) add(thread uint32, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxAnswers {
		for t, b := range s.all { // their threads are most likely gone
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

// in returns the replies that told of names in dir.
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

// taken waits until the kernel has taken all replies that told of names in dir.
func (m *Mount) taken(dir *node) {
	for m.untaken(dir) {
		time.Sleep(settlePoll)
	}
}

// untaken reports whether a thread may not have taken its reply yet: the kernel
// still waits for the reply, or has it but the thread has not run since, as far
// as this can be seen.
func (m *Mount) untaken(dir *node) bool {
	for thread, a := range m.answers.in(dir) {
		age := time.Since(a.at)
		if age < settleTime || age < longSettle && running(thread) || m.underway(a.unique) {
			return true
		}
	}
	return false
}

// underway reports whether the kernel still waits for the answer to a request.
// It writes an answer to an interruption of the request, which changes nothing
// and which the kernel accepts only while it waits.
func (m *Mount) underway(unique uint64) bool {
	const headLen, interrupt = 16, 1
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, headLen), headLen)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint64(b, unique|interrupt)
	_, err := unix.Write(m.notifyFD, b)
	return err == nil
}
