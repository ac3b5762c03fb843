package fusefs

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// nameReplies holds, for each thread, the last reply that gave the thread a lent
// name. The kernel does not always prevent changes in a directory while it takes a
// name from a reply, and may then believe the name after its invalidation. An
// invalidation therefore waits for such replies in flight. A thread that sends
// another request has taken its last reply.
type nameReplies struct {
	mu  sync.Mutex
	all map[uint32]nameReply // by thread

	nonEmpty atomic.Bool // all is not empty; if false, requests skip the lock
}

// A nameReply is a reply that gave a thread a lent name.
type nameReply struct {
	dir    *node
	unique uint64 // number of the request
	at     time.Time
}

// add notes a reply to a thread.
func (s *nameReplies) add(thread uint32, a nameReply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxAnswers {
		for t, b := range s.all { // their threads have most likely exited
			if a.at.Sub(b.at) > noteWait {
				delete(s.all, t)
			}
		}
	}
	s.all[thread] = a
	s.nonEmpty.Store(true)
}

// forgetThread drops a thread's last reply, because the thread sends another
// request.
func (s *nameReplies) forgetThread(thread uint32) {
	if !s.nonEmpty.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, thread)
	s.nonEmpty.Store(len(s.all) > 0)
}

// repliesIn returns the replies that gave names in dir.
func (s *nameReplies) repliesIn(dir *node) map[uint32]nameReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some map[uint32]nameReply
	for t, a := range s.all {
		if a.dir == dir {
			if some == nil {
				some = make(map[uint32]nameReply)
			}
			some[t] = a
		}
	}
	return some
}

// awaitNameReplies waits until the kernel has taken all replies that gave names in
// dir.
func (m *Mount) awaitNameReplies(dir *node) {
	for m.hasUntakenReplies(dir) {
		time.Sleep(settlePoll)
	}
}

// hasUntakenReplies reports whether a thread may not have taken its reply yet: the
// kernel still waits for the reply, or has it but the thread does not seem to have
// run since.
func (m *Mount) hasUntakenReplies(dir *node) bool {
	for thread, a := range m.nameReplies.repliesIn(dir) {
		age := time.Since(a.at)
		if age < settleTime || age < longSettle && isRunning(thread) || m.isAwaitingReply(a.unique) {
			return true
		}
	}
	return false
}

// isAwaitingReply reports whether the kernel still waits for the reply to a
// request. It writes a reply to the request's interruption, which changes nothing
// and which the kernel accepts only while it waits.
func (m *Mount) isAwaitingReply(unique uint64) bool {
	const headLen, interrupt = 16, 1
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, headLen), headLen)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint64(b, unique|interrupt)
	_, err := unix.Write(m.notifyFD, b)
	return err == nil
}
