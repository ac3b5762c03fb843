package relief

import (
	"sync"
	"sync/atomic"
)

// A Reader is the role of the goroutine that reads a connection, and serves what
// was read. Its Relieve must be set before the first Begin.
type Reader struct {
	// Relieve makes another goroutine read the connection. It is called while the
	// reader serves a call, and that reader's End does not return before it.
	Relieve func()

	calls uint64 // number served by readers; owned by the reader

	// serving numbers the call that the reader serves, or is 0. If the serving
	// goroutine sets it to 0, that goroutine stays the reader; if the watchdog
	// does, another goroutine reads on.
	serving atomic.Uint64
	kind    *Kind // kind of that call

	// The watchdog owns these.
	relieving   sync.Mutex
	guarded     atomic.Bool // the watchdog checks this reader
	lastServing uint64      // serving at the last check
	idleChecks  int         // consecutive checks that found 0
}

// Begin records that the reader serves a call, and returns its number, for End. The
// reader must not begin another before End.
func (r *Reader) Begin(w *Watchdog, k *Kind) (call uint64) {
	r.calls++
	call = r.calls
	r.kind = k
	r.serving.Store(call)
	if !r.guarded.Load() {
		w.addReader(r)
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
// call it.
func (r *Reader) Calls() uint64 { return r.calls }

// checkReader checks r. again is false when r needs no more checks. A reader sets
// serving before it reads guarded, so clearing guarded and then reading serving
// misses no call.
func (r *Reader) checkReader() (again, relieved bool) {
	n := r.serving.Load()
	if n != 0 {
		relieved = n == r.lastServing && r.relieveReader(n)
		r.lastServing, r.idleChecks = n, 0
		return true, relieved
	}
	if r.idleChecks++; r.idleChecks < maxIdleChecks {
		return true, false
	}
	r.guarded.Store(false)
	if r.serving.Load() == 0 {
		return false, false
	}
	return !r.guarded.Swap(true), false // unless the reader has been added again
}

// relieveReader makes another goroutine read, if the reader still serves call n.
func (r *Reader) relieveReader(n uint64) bool {
	r.relieving.Lock()
	defer r.relieving.Unlock()
	if !r.serving.CompareAndSwap(n, 0) {
		return false
	}
	r.kind.recordSlow()
	r.Relieve()
	return true
}
