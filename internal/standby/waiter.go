package standby

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
)

// Intervals between the attempts of a waiting host.
const (
	minPoll       = 50 * time.Millisecond
	maxPoll       = 200 * time.Millisecond
	releasedPoll  = 10 * time.Millisecond
	firstFence    = time.Second // after a fence that failed; doubled each time
	longestFence  = 30 * time.Second
	responseLimit = 2 * time.Second // an operation that takes longer is reported
)

// Config describes a host that may serve.
type Config struct {
	Store  Store
	Tenure time.Duration // T
	Beat   Beat          // the fields that do not change: Host, Address, Boot, Process, Program

	// Fence, if not nil, keeps the host that has written a beat from writing any more. It must
	// return when the context ends.
	Fence func(ctx context.Context, silent Beat) error
}

// A Waiter waits until its host may serve.
type Waiter struct {
	cfg Config

	mu      sync.Mutex
	machine Wait
	step    Step
	since   int64  // start of the step
	err     error  // of the last step of its kind, or nil
	count   uint64 // of own first beats that were sent
	sent    int64  // when the last one was

	retry       time.Duration // between attempts to fence
	retryAt     int64         // time of the next one
	fenceFailed error         // of the last one
}

// NewWaiter returns a Waiter.
func NewWaiter(cfg Config) *Waiter {
	cfg.Beat.Version, cfg.Beat.Tenure = beatVersion, cfg.Tenure.Seconds()
	w := &Waiter{cfg: cfg, since: tenure.Now()}
	w.machine = Wait{Tenure: cfg.Tenure, Host: cfg.Beat.Host, Boot: cfg.Beat.Boot, Fence: cfg.Fence != nil}
	return w
}

// ErrNamesake reports that another host that serves has the same name.
var ErrNamesake = errors.New("another host that serves has the same name: give each host of --standby its own")

// Wait waits until this host may serve, and returns it with its tenure. When ctx ends, it returns the
// cause, even while the file system hangs. A Host that it returns at that moment must be released,
// too.
func (w *Waiter) Wait(ctx context.Context) (*Host, error) {
	if err := w.cfg.Beat.checkNames(); err != nil {
		return nil, err
	}
	served := make(chan *Host, 1)
	go func() {
		served <- w.run(ctx)
	}()
	var h *Host
	select {
	case h = <-served:
	case <-ctx.Done():
		select {
		case h = <-served:
		case <-time.After(responseLimit): // the file system hangs
		}
	}
	switch {
	case h != nil:
		return h, nil
	case ctx.Err() == nil:
		return nil, ErrNamesake
	}
	return nil, context.Cause(ctx)
}

// run returns nil when ctx has ended, or another host has this host's name.
func (w *Waiter) run(ctx context.Context) *Host {
	for ctx.Err() == nil || w.isClaiming() {
		pause := false
		switch w.begin() {
		case StepRead:
			w.read()
			pause = w.next() == StepRead
		case StepFence:
			pause = !w.fence(ctx)
			w.read()
		case StepLock:
			pause = !w.lock()
			w.read()
		case StepUnlock:
			w.unlock()
		case StepWrite:
			pause = !w.write()
		case StepServe:
			if h := w.host(); h != nil {
				return h
			}
		case StepRefuse:
			w.unlock()
			return nil
		}
		if pause {
			waitFor(ctx, w.pollTime())
		}
	}
	w.unlock()
	return nil
}

// isClaiming reports whether the beat is this host's own, and the directory responds. Such a host
// serves or unlocks next: if it left the beat behind, others would wait for it and fence it.
func (w *Waiter) isClaiming() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.own != nil && w.err == nil
}

// pollTime returns the time until the next attempt. A host that has released the directory is about to
// unlock it.
func (w *Waiter) pollTime() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.machine.isReleased() && w.err == nil {
		return releasedPoll
	}
	return min(max(w.cfg.Tenure/50, minPoll), maxPoll)
}

func waitFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// begin returns the next step, and records that it begins.
func (w *Waiter) begin() Step {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.step, w.since = w.machine.Next(), tenure.Now()
	return w.step
}

// update records a step's result.
func (w *Waiter) update(err error, change func(*Wait)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = tenure.Now()
	w.err = err
	if err == nil {
		change(&w.machine)
	}
}

// next returns the next step.
func (w *Waiter) next() Step {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.Next()
}

// read reads the beat.
func (w *Waiter) read() {
	start := tenure.Now()
	value, err := w.cfg.Store.ReadBeat()
	end := tenure.Now()
	if err != nil {
		err = fmt.Errorf("the beat cannot be read: %w", err)
	}
	w.update(err, func(m *Wait) { m.Read(start, end, value) })
}

// fence runs the fence command, unless it has just failed. It returns true if the host is fenced.
func (w *Waiter) fence(ctx context.Context) bool {
	w.mu.Lock()
	silent, known := w.machine.Last()
	early := tenure.Now() < w.retryAt
	w.mu.Unlock()
	if early {
		return false
	}
	err := fmt.Errorf("nobody knows which host to fence, because the file %s is damaged: remove it when no other host serves", FileName)
	if known {
		err = w.cfg.Fence(ctx, silent)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now, _ := w.machine.Last(); err == nil && now == silent {
		w.machine.Fenced()
		w.retry, w.retryAt, w.fenceFailed = 0, 0, nil
		return true
	}
	w.retry = min(max(firstFence, 2*w.retry), longestFence)
	w.retryAt = tenure.Now() + int64(w.retry)
	w.fenceFailed = err
	return false
}

// lock returns true if the directory is locked.
func (w *Waiter) lock() bool {
	ok, err := w.cfg.Store.TryLock()
	if err != nil {
		err = fmt.Errorf("the state directory cannot be locked: %w", err)
	}
	w.update(err, func(m *Wait) {
		if ok {
			m.Locked(tenure.Now())
		}
	})
	return ok
}

func (w *Waiter) unlock() {
	w.cfg.Store.Unlock()
	w.update(nil, (*Wait).Unlocked)
}

// write writes this host's first beat. The tenure begins when the write begins. The beat of each
// attempt differs from that of the one before, so that other hosts see a change.
func (w *Waiter) write() bool {
	w.count++
	beat := w.cfg.Beat
	beat.State, beat.Count = Serving, w.count
	sent := tenure.Now()
	value, err := beat.encode()
	if err == nil {
		err = w.cfg.Store.WriteBeat(value)
	}
	if err != nil {
		err = fmt.Errorf("the beat cannot be written: %w", err)
	}
	w.update(err, func(m *Wait) {
		m.Wrote(value, tenure.Now())
		w.sent = sent
	})
	return err == nil
}

// host returns the serving host, or nil if too much time has passed since its first beat was sent.
func (w *Waiter) host() *Host {
	h := newHost(w.cfg, w.count, w.sent)
	if h.Tenure.Over() {
		w.unlock()
		return nil
	}
	return h
}
