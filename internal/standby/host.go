package standby

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
)

// maxInFlight is the maximum number of beats that are being written. When it is reached, the tenure
// is over.
const maxInFlight = 5

// ErrForeign reports that another host has written the beat while this one was serving.
var ErrForeign = errors.New("another host serves from the same state directory")

// A Host serves: it writes its beat every T/5, on time, whether or not the last write has returned,
// until Release or the end of its tenure.
type Host struct {
	Tenure *tenure.Tenure

	cfg   Config
	word  int64
	over  chan struct{} // closed when the tenure is over
	stop  chan struct{}
	once  sync.Once
	tasks sync.WaitGroup // without the beats in flight

	mu       sync.Mutex
	count    uint64
	inFlight int
	idle     chan struct{} // closed when inFlight is 0 after stop
	last     int64         // when the last beat that succeeded was sent
	err      error         // of the last beat that returned
	foreign  error
}

// newHost returns a host whose beat with a count was sent at a time.
func newHost(cfg Config, count uint64, sent int64) *Host {
	h := &Host{cfg: cfg, over: make(chan struct{}), stop: make(chan struct{}), idle: make(chan struct{}), count: count, last: sent}
	h.word = h.wordAfter(sent)
	h.Tenure = tenure.New(&h.word)
	h.tasks.Go(h.beat)
	h.tasks.Go(h.watch)
	return h
}

// wordAfter returns the end of a tenure whose last beat was sent at a time.
func (h *Host) wordAfter(sent int64) int64 { return sent + int64(h.cfg.Tenure-h.cfg.Tenure/10) }

// Over returns a channel that is closed when the tenure is over, unless Release came first.
func (h *Host) Over() <-chan struct{} { return h.over }

// Err returns why the tenure is over: ErrForeign, or the error of the last beat.
func (h *Host) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.foreign != nil {
		return h.foreign
	}
	return h.err
}

// LastBeat returns the time since the last beat that succeeded was sent, and the error of the last
// one that returned.
func (h *Host) LastBeat() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Duration(tenure.Now() - h.last), h.err
}

// beat starts a beat every T/5.
func (h *Host) beat() {
	t := time.NewTicker(h.cfg.Tenure / 5)
	defer t.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-h.over:
			return
		case <-t.C:
		}
		if n, ok := h.startBeat(); ok {
			go h.sendBeat(n)
		}
	}
}

// startBeat returns the number of the next beat, unless too many are in flight.
func (h *Host) startBeat() (n uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isStopped() || h.inFlight >= maxInFlight {
		return 0, false
	}
	h.inFlight++
	h.count++
	return h.count, true
}

// sendBeat writes a beat, and extends the tenure. It may block for as long as the file system hangs.
func (h *Host) sendBeat(n uint64) {
	sent := tenure.Now()
	err := h.writeBeat(n, Serving)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	switch {
	case errors.Is(err, ErrForeign):
		h.foreign = err
		h.Tenure.End()
	case err == nil && h.Tenure.Extend(h.wordAfter(sent)):
		h.last = max(h.last, sent)
	}
	h.inFlight--
	h.closeIdle()
}

// closeIdle closes h.idle if h has stopped and nothing is in flight. h.mu is held.
func (h *Host) closeIdle() {
	if h.isStopped() && h.inFlight == 0 {
		close(h.idle) // nothing starts any more
	}
}

func (h *Host) isStopped() bool {
	select {
	case <-h.stop:
		return true
	default:
		return false
	}
}

// writeBeat writes a beat over an own one.
func (h *Host) writeBeat(n uint64, state string) error {
	value, err := h.cfg.Store.ReadBeat()
	if err != nil {
		return fmt.Errorf("the beat cannot be read: %w", err)
	}
	if other, ok := parseBeat(value); ok && other.Process != h.cfg.Beat.Process {
		return fmt.Errorf("%w: %s", ErrForeign, other.Host)
	}
	beat := h.cfg.Beat
	beat.State, beat.Count = state, n
	if value, err = beat.encode(); err != nil {
		return err
	}
	if err := h.Tenure.Check(); err != nil {
		return err
	}
	if err := h.cfg.Store.WriteBeat(value); err != nil {
		return fmt.Errorf("the beat cannot be written: %w", err)
	}
	return nil
}

// watch closes h.over soon after the end of the tenure. It wakes often, because its timer does not
// count the time of a suspend.
func (h *Host) watch() {
	for {
		left := h.Tenure.Left()
		if left == 0 {
			close(h.over)
			return
		}
		t := time.NewTimer(min(left, h.cfg.Tenure/20))
		select {
		case <-t.C:
		case <-h.stop:
			t.Stop()
			return
		}
	}
}

// Stop stops beating. The tenure then ends by itself.
func (h *Host) Stop() {
	h.once.Do(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		close(h.stop) // under the lock: otherwise the last beat could close h.idle, too
		h.closeIdle()
	})
	h.tasks.Wait()
}

// Release stops beating and tells the next host that it may serve at once. The caller must have
// closed everything else in the directory. Without the last beat, which may hang, the next host waits
// for T.
func (h *Host) Release() error {
	h.Stop()
	select {
	case <-h.idle:
	case <-time.After(h.Tenure.Left()):
		return tenure.ErrOver
	}
	h.mu.Lock()
	h.count++
	n := h.count
	h.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- h.writeBeat(n, Released) }()
	select {
	case err := <-done:
		h.Tenure.End()
		return err
	case <-time.After(h.cfg.Tenure):
		return tenure.ErrOver
	}
}
