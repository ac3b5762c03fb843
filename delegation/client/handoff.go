package client

import (
	"context"
	"sync/atomic"
)

// A handoff passes one value to a receiver that may stop waiting.
type handoff[T any] struct {
	state atomic.Uint32
	c     chan T // has capacity 1
}

// The states of a handoff.
const (
	pending uint32 = iota
	handed
	abandoned
)

// put hands v over. It returns false if the receiver no longer waits.
func (h *handoff[T]) put(v T) bool {
	if !h.state.CompareAndSwap(pending, handed) {
		return false
	}
	h.c <- v
	return true
}

// wait waits for the value. It returns false if ctx ended first; put then
// returns false too.
func (h *handoff[T]) wait(ctx context.Context) (v T, ok bool) {
	select {
	case v = <-h.c:
		return v, true
	case <-ctx.Done():
	}
	if h.state.CompareAndSwap(pending, abandoned) {
		return v, false
	}
	return <-h.c, true
}
