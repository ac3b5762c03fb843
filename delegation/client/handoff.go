package client

import (
	"context"
	"sync/atomic"
)

// A handoff brings one value to somebody who may not wait for it.
type handoff[T any] struct {
	state atomic.Uint32
	c     chan T // room for one
}

// How a handoff stands.
const (
	pending uint32 = iota
	handed
	abandoned
)

// put hands v over. It returns false where nobody waits any more.
func (h *handoff[T]) put(v T) bool {
	if !h.state.CompareAndSwap(pending, handed) {
		return false
	}
	h.c <- v
	return true
}

// wait waits for the value. It returns false where ctx ended before that: put
// returns false then.
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
