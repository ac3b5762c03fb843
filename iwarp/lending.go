package iwarp

import (
	"runtime"
	"sync/atomic"
)

// A lending tells whether the kernel may be reading from the mappings of files, with the
// socket locked. If their disk does not answer, every other system call on the
// socket waits as well, even with MSG_DONTWAIT. A call that the runtime does not
// know of must not be among these: the runtime would wait for the call before it
// collects garbage, and all goroutines for the runtime.
//
//	writer  on = true ──▶ waits while brief ──▶ sendmsg ──▶ on = false
//	reader  brief = true ─▶ on? the runtime learns of recvmsg : it does not ─▶ brief = false
type lending struct {
	on    atomic.Bool
	brief atomic.Bool // the reader is in a call that the runtime does not know of
}

// begin tells that the writer sends from mappings from now on.
func (s *lending) begin() {
	s.on.Store(true)
	for s.brief.Load() { // for some microseconds: the socket is not held up yet
		runtime.Gosched()
	}
}

func (s *lending) end() { s.on.Store(false) }

// enter reports whether the reader may make a short call without the runtime's
// knowledge. The reader must call leave behind it.
func (s *lending) enter() bool {
	if s == nil {
		return true
	}
	if s.on.Load() { // begin must not meet brief again and again
		return false
	}
	s.brief.Store(true)
	if s.on.Load() {
		s.brief.Store(false)
		return false
	}
	return true
}

func (s *lending) leave() {
	if s != nil {
		s.brief.Store(false)
	}
}
