package iwarp

import (
	"os"
	"sync"
	"time"
)

// A stallWatch bounds waits that follow one another and are short, most of them:
// its timer is not set and stopped for each, which would wake the runtime's poller,
// but looks when it has run out whether a wait has lasted as long.
type stallWatch struct {
	mu    sync.Mutex
	timer *time.Timer
	runs  bool      // the timer
	until time.Time // when the wait has lasted too long; zero: there is none
	late  bool      // it has
	over  func()    // ends it
}

func (w *stallWatch) init(over func()) {
	w.over = over
	w.timer = time.AfterFunc(time.Hour, w.check)
	w.timer.Stop()
}

// begin begins a wait. The limit 0 is none.
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

// end ends the wait, and tells whether it has lasted too long.
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

// check is what the timer does.
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
