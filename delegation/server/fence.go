package server

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// A fence prevents a server from changing objects that clients may still trust
// because of grants by an earlier server. A client cut off from the earlier
// server has learned neither of that server's end nor of this server's start.
// Such a client trusts its cache until its lease lapses.
//
// Therefore a marker is on stable storage whenever grants may be outstanding. A
// server that finds a marker at its start does not know when the last grant was
// made or renewed. Changes then wait for a whole lease from the start; no part
// of that time is ever deducted.
type fence struct {
	mark  marker
	lease time.Duration // of new grants
	live  func() int    // grants in force
	log   *slog.Logger
	clock func() time.Duration

	up    atomic.Bool   // changes may have to wait
	until time.Duration // end of the wait, by clock

	// A grant is made with mu held for reading. No grant can therefore be made
	// between the count of grants and the removal of the marker. No goroutine
	// waits for the disk with mu held: an ACQUIRE that needs the marker
	// meanwhile is refused, and close leaves the marker in place.
	mu     sync.RWMutex
	busy   bool          // the marker is being written or removed
	marked time.Duration // the lease that the marker names; 0: there is no marker
	used   atomic.Bool   // a grant was made since the last check
	failed bool          // the marker could not be written, and the log says so
	closed bool
	timer  *time.Timer // runs check
}

// newFence returns a fence with its marker at path. If path is "", newFence
// returns nil, a fence that prevents nothing.
func newFence(path string, lease time.Duration, live func() int, log *slog.Logger, clock func() time.Duration) *fence {
	if path == "" {
		return nil
	}
	f := &fence{mark: marker{path, (*os.File).Sync}, lease: lease, live: live, log: log, clock: clock}
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if f.marked, err = f.mark.read(); err != nil {
		log.Warn("cannot read the lease of earlier delegations: assuming the longest lease", "err", err)
		f.marked = MaxLease
	}
	f.timer = time.AfterFunc(markerIdle, f.check)
	if f.marked > 0 {
		log.Warn("clients may hold delegations of the server before this one: changes wait until those expire", "time", f.marked)
		f.until = clock() + f.marked
		f.up.Store(true)
	}
	return f
}

// left returns how long changes still have to wait.
func (f *fence) left() time.Duration {
	if f == nil || !f.up.Load() {
		return 0
	}
	if left := f.until - f.clock(); left > 0 {
		return left
	}
	f.up.Store(false)
	return 0
}

// enter returns the reason why no grant may be made. If enter returns 0, the
// marker is on stable storage, and leave must follow.
func (f *fence) enter() delegation.Reason {
	if f == nil {
		return 0
	}
	for {
		f.mu.RLock()
		if !f.closed && !f.busy && f.marked >= f.lease {
			f.used.Store(true)
			return 0
		}
		f.mu.RUnlock()
		if why := f.set(); why != 0 {
			return why
		}
	}
}

func (f *fence) leave() {
	if f != nil {
		f.mu.RUnlock()
	}
}

// set writes the marker, and returns the reason if the marker is missing.
func (f *fence) set() delegation.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return delegation.ReasonOver
	case f.busy: // the disk may take any time, and a waiting call occupies a place
		return delegation.ReasonContended
	case f.marked >= f.lease:
		return 0
	}
	f.used.Store(true)
	fresh := f.marked == 0
	if err := f.wait(func() error { return f.mark.write(f.lease, fresh) }); err != nil {
		if !f.failed {
			f.log.Error("no delegations are granted, because their marker cannot be written: make its directory writable", "file", f.mark.path, "err", err)
		}
		f.failed = true
		return delegation.ReasonLimit
	}
	f.marked, f.failed = f.lease, false
	if !f.closed {
		f.timer.Reset(markerIdle)
	}
	return 0
}

// wait runs do, which works on the marker, without mu. The caller holds mu
// before and after.
func (f *fence) wait(do func() error) error {
	f.busy = true
	f.mu.Unlock()
	err := do()
	f.mu.Lock()
	f.busy = false
	return err
}

// check removes the marker if no grants were in force for markerIdle.
func (f *fence) check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch used := f.used.Swap(false); {
	case f.closed || f.marked == 0:
	case used || f.busy || f.live() > 0 || f.left() > 0:
		f.timer.Reset(markerIdle)
	default:
		f.clear()
	}
}

// clear removes the marker. The caller holds mu, and busy is false. After a
// failure the file may exist or not; the next grant writes the marker again.
func (f *fence) clear() {
	f.marked = 0
	if err := f.wait(f.mark.remove); err != nil {
		f.log.Warn("the marker of delegations cannot be removed: after the next start, changes wait for a lease", "file", f.mark.path, "err", err)
	}
}

// close removes the marker if no grants are in force and no wait for an earlier
// server's grants is left. Otherwise some client may still trust its cache, and
// the marker stays. If the disk has not yet finished with the marker, close
// leaves the marker unchanged and does not wait. It waits at most closeTime for
// the removal, which the disk may still finish later.
func (f *fence) close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.closed = true
	f.timer.Stop()
	if f.marked == 0 || f.busy || f.live() > 0 || f.left() > 0 {
		return
	}
	removed := make(chan struct{})
	go func() {
		defer close(removed)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.clear()
	}()
	f.mu.Unlock()
	defer f.mu.Lock()
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-removed:
	case <-late.C:
		f.log.Warn("the marker of delegations cannot be removed, because its file system does not answer: after the next start, changes may wait for a lease", "file", f.mark.path)
	}
}
