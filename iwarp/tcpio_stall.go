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

// A debt is the data that the peer owes: the rest of an FPDU, or the next FPDU
// of a message. The reader waits at most stallTimeout in total over all FPDUs
// of a message, and for each FPDU additionally the time that the FPDU takes at
// slowestPeer: a peer that sends a little each time must not keep buffers for
// ever. Only waiting counts; the time that the reader is busy does not.
type debt struct {
	owed   bool          // the peer owes bytes
	fpdu   int           // bytes of the FPDU, as far as known
	waited time.Duration // total wait so far
}

// left returns how long the reader may still wait for the peer; 0 means for
// ever. It returns an error if the peer has taken too long.
func (d *debt) left() (time.Duration, error) {
	if !d.owed {
		return 0, nil
	}
	if left := stallTimeout + d.more() - d.waited; left > 0 {
		return left, nil
	}
	return 0, os.ErrDeadlineExceeded
}

// more returns the additional wait that the FPDU allows.
func (d *debt) more() time.Duration { return time.Duration(d.fpdu) * time.Second / slowestPeer }

// next begins with the FPDU behind a complete one. Within a message the wait
// continues; a fast FPDU saves no time for the following FPDUs.
func (d *debt) next(within bool) {
	waited := time.Duration(0)
	if within {
		waited = max(d.waited-d.more(), 0)
	}
	*d = debt{waited: waited}
}

// begin and end enclose a wait.
func (d *debt) begin() (start time.Time) {
	if d.owed {
		start = time.Now()
	}
	return start
}

func (d *debt) end(start time.Time) {
	if d.owed {
		d.waited += time.Since(start)
	}
}
