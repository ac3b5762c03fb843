package iwarp

import (
	"os"
	"sync"
	"time"
)

// A stallWatch bounds consecutive waits, most of them short. It does not set
// and stop its timer for each wait, which would wake the runtime's poller.
// Instead the timer checks when it expires whether a wait has lasted too long.
type stallWatch struct {
	mu    sync.Mutex
	timer *time.Timer
	runs  bool      // the timer is running
	until time.Time // when the wait has lasted too long; zero: no wait
	late  bool      // the wait has lasted too long
	over  func()    // ends the wait
}

func (w *stallWatch) init(over func()) {
	w.over = over
	w.timer = time.AfterFunc(time.Hour, w.check)
	w.timer.Stop()
}

// begin begins a wait. The limit 0 means no limit.
func (w *stallWatch) begin(limit time.Duration) {
	if limit == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = time.Now().Add(limit)
	if !w.runs {
		w.runs = true
		w.timer.Reset(limit)
	}
}

// end ends the wait, and reports whether the wait has lasted too long.
func (w *stallWatch) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = time.Time{}
	if w.late {
		w.late = false
		return os.ErrDeadlineExceeded
	}
	return nil
}

// check runs when the timer expires.
func (w *stallWatch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := time.Until(w.until)
	switch {
	case w.until.IsZero():
		w.runs = false
	case left > 0:
		w.timer.Reset(left)
	default:
		w.runs, w.late = false, true
		w.over()
	}
}

// stop ends the watch.
func (w *stallWatch) stop() { w.timer.Stop() }
