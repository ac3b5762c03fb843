package relief

import (
	"sync"
	"sync/atomic"
)

// A Reader is the turn to read a connection, and to serve what was read. Its
// Relieve must be set before the first Begin.
type Reader struct {
	// Relieve makes another goroutine read the connection. It is called while
	// the reader serves a call, and that reader's End does not return before.
	Relieve func()

	calls uint64 // served by readers; the reader's

	// serving is the number of the call that the reader serves, or 0. If the
	// serving goroutine sets it to 0, that goroutine stays the reader; if the
	// watchdog does, another goroutine reads on.
	serving atomic.Uint64
	kind    *Kind // of that call

	// The watchdog owns these.
	relieving sync.Mutex
	guarded   atomic.Bool // the watchdog checks this reader
	seen      uint64      // serving, at the last check
	rest      int         // how many checks in a row found 0
}

// Begin says that the reader serves a call, and returns its number, for End.
// The reader must not begin another before the end.
func (r *Reader) Begin(w *Watchdog, k *Kind) (call uint64) {
	r.calls++
	call = r.calls
	r.kind = k
	r.serving.Store(call)
	if !r.guarded.Load() {
		w.enter(r)
	}
	return call
}

// End reports whether the goroutine that serves a call is still the reader.
// Otherwise the reader was relieved, and the goroutine must not read on.
func (r *Reader) End(call uint64) bool {
	if r.serving.CompareAndSwap(call, 0) {
		return true
	}
	r.relieving.Lock() // Relieve has returned
	//lint:ignore SA2001 that is all
	r.relieving.Unlock()
	return false
}

// Calls returns how many calls readers have begun to serve. Only the reader may
// ask.
func (r *Reader) Calls() uint64 { return r.calls }

// watch checks r. again is false when r needs no more checks. A reader sets
// serving before it reads guarded, so clearing guarded and then reading serving
// misses no call.
func (r *Reader) watch() (again, relieved bool) {
	n := r.serving.Load()
	if n != 0 {
		relieved = n == r.seen && r.relieve(n)
		r.seen, r.rest = n, 0
		return true, relieved
	}
	if r.rest++; r.rest < maxRest {
		return true, false
	}
	r.guarded.Store(false)
	if r.serving.Load() == 0 {
		return false, false
	}
	return !r.guarded.Swap(true), false // or the reader has entered again
}

// relieve makes another goroutine read, if the reader still serves call n.
func (r *Reader) relieve(n uint64) bool {
	r.relieving.Lock()
	defer r.relieving.Unlock()
	if !r.serving.CompareAndSwap(n, 0) {
		return false
	}
	r.kind.slow()
	r.Relieve()
	return true
}
