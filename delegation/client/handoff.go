package client

import (
	"context"
	"sync/atomic"
)

// A handoff passes one value to a receiver that may stop waiting.
type handoff[T any] struct {
	state atomic.Uint32
	value chan T // has capacity 1
}

// A handoff's states.
const (
	handoffPending uint32 = iota
	handoffDone
	handoffAbandoned
)

// putValue passes v to the receiver. It returns false if the receiver no longer
// waits.
func (h *handoff[T]) putValue(v T) bool {
	if !h.state.CompareAndSwap(handoffPending, handoffDone) {
		return false
	}
	h.value <- v
	return true
}

// waitForValue waits for the value. It returns false if ctx ended first;
// putValue then returns false too.
func (h *handoff[T]) waitForValue(ctx context.Context) (v T, ok bool) {
	select {
	case v = <-h.value:
		return v, true
	case <-ctx.Done():
	}
	if h.state.CompareAndSwap(handoffPending, handoffAbandoned) {
		return v, false
	}
	return <-h.value, true
}
