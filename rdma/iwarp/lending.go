package iwarp

import (
	"runtime"
	"sync/atomic"
)

// A mappingGuard records whether the kernel may be reading from file mappings with the socket
// locked. If their disk does not respond, every other system call on the socket blocks as well,
// even with MSG_DONTWAIT. A raw system call, of which the runtime is not informed, must not be
// among these: the garbage collector would wait for the call, and all goroutines for the collector.
//
//	writer  sending = true ──▶ waits while inRawCall ──▶ sendmsg ──▶ sending = false
//	reader  inRawCall = true ─▶ sending? recvmsg : raw recvmsg ─▶ inRawCall = false
type mappingGuard struct {
	sending   atomic.Bool
	inRawCall atomic.Bool // the reader is in a raw system call
}

// beginSend declares that the writer sends from mappings.
func (s *mappingGuard) beginSend() {
	s.sending.Store(true)
	for s.inRawCall.Load() { // for some microseconds: the socket is not held up yet
		runtime.Gosched()
	}
}

func (s *mappingGuard) endSend() { s.sending.Store(false) }

// enterRawCall reports whether the reader may make a short raw system call. The reader must call
// leaveRawCall afterwards.
func (s *mappingGuard) enterRawCall() bool {
	if s == nil {
		return true
	}
	if s.sending.Load() { // do not delay beginSend repeatedly
		return false
	}
	s.inRawCall.Store(true)
	if s.sending.Load() {
		s.inRawCall.Store(false)
		return false
	}
	return true
}

func (s *mappingGuard) leaveRawCall() {
	if s != nil {
		s.inRawCall.Store(false)
	}
}
