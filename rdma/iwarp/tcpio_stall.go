package iwarp

import (
	"os"
	"sync"
	"time"
)

// A stallWatch bounds consecutive waits, most of which are short. It does not
// set and stop its timer for each wait, which would wake the runtime's poller.
// Instead, when the timer expires, it checks whether a wait has lasted too
// long.
type stallWatch struct {
	mu       sync.Mutex
	timer    *time.Timer
	running  bool      // the timer is running
	deadline time.Time // when the wait has lasted too long; zero: no wait
	stalled  bool      // the wait has lasted too long
	onStall  func()    // called to end the wait
}

func (w *stallWatch) init(over func()) {
	w.onStall = over
	w.timer = time.AfterFunc(time.Hour, w.checkWait)
	w.timer.Stop()
}

// beginWait begins a wait. A limit of 0 means no limit.
func (w *stallWatch) beginWait(limit time.Duration) {
	if limit == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = time.Now().Add(limit)
	if !w.running {
		w.running = true
		w.timer.Reset(limit)
	}
}

// endWait ends the wait, and returns os.ErrDeadlineExceeded if the wait has
// lasted too long.
func (w *stallWatch) endWait() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = time.Time{}
	if w.stalled {
		w.stalled = false
		return os.ErrDeadlineExceeded
	}
	return nil
}

// checkWait runs when the timer expires.
func (w *stallWatch) checkWait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := time.Until(w.deadline)
	switch {
	case w.deadline.IsZero():
		w.running = false
	case left > 0:
		w.timer.Reset(left)
	default:
		w.running, w.stalled = false, true
		w.onStall()
	}
}

// stop stops the timer.
func (w *stallWatch) stop() { w.timer.Stop() }

// A waitBudget bounds the time that the reader waits for outstanding data: the rest of an FPDU, or
// a message's next FPDU. The reader waits at most stallTimeout in total over all FPDUs in a
// message, and for each FPDU additionally the time that the FPDU takes at slowestPeer: a peer that
// sends a little each time must not hold buffers forever. Only waiting counts; the time that the
// reader is busy does not.
type waitBudget struct {
	owed   bool          // data is outstanding
	fpdu   int           // FPDU length in bytes, as far as known
	waited time.Duration // total wait so far
}

// remaining returns the time that the reader may still wait for the peer; 0
// means forever. It returns an error if the budget is exhausted.
func (d *waitBudget) remaining() (time.Duration, error) {
	if !d.owed {
		return 0, nil
	}
	if left := stallTimeout + d.fpduAllowance() - d.waited; left > 0 {
		return left, nil
	}
	return 0, os.ErrDeadlineExceeded
}

// fpduAllowance returns the additional wait allowed for the FPDU.
func (d *waitBudget) fpduAllowance() time.Duration {
	return time.Duration(d.fpdu) * time.Second / slowestPeer
}

// nextFPDU starts the budget for the next FPDU. Within a message the
// accumulated wait is kept; a fast FPDU saves no time for the following ones.
func (d *waitBudget) nextFPDU(within bool) {
	waited := time.Duration(0)
	if within {
		waited = max(d.waited-d.fpduAllowance(), 0)
	}
	*d = waitBudget{waited: waited}
}

// beginWait and endWait enclose a wait.
func (d *waitBudget) beginWait() (start time.Time) {
	if d.owed {
		start = time.Now()
	}
	return start
}

func (d *waitBudget) endWait(start time.Time) {
	if d.owed {
		d.waited += time.Since(start)
	}
}
