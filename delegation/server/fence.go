package server

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// A fence keeps a server from changing what clients may still trust that a server before
// it has granted. A client that was cut off from that one has heard neither of its end
// nor of this one's start, and believes its cache until its lease has lapsed.
//
// So a marker lies on stable storage whenever anybody may hold anything. Who finds one
// at the start does not know when the last grant was made, nor renewed: changes wait for
// a whole lease from the start, and nothing of that is ever taken off.
type fence struct {
	mark  marker
	lease time.Duration // that grants are made with
	live  func() int    // grants in force
	log   *slog.Logger

	up    atomic.Bool   // changes may have to wait
	until time.Duration // for them; by the Keeper's clock

	// Grants are made with mu held for reading. So none is made between the look
	// at how many there are and the removal of the marker. The disk is never waited
	// for with mu held: who would need it meanwhile is refused, or leaves the marker.
	mu     sync.RWMutex
	busy   bool          // the marker is being written, or removed
	marked time.Duration // the lease that the marker has; 0: there is none
	used   atomic.Bool   // something was granted since look
	failed bool          // to write the marker, and the log says so
	closed bool
	timer  *time.Timer // of look
}

// newFence returns a fence with its marker at a path; nil, which keeps nobody from
// anything, where that is "".
func newFence(path string, lease time.Duration, live func() int, log *slog.Logger, now time.Duration) *fence {
	if path == "" {
		return nil
	}
	f := &fence{mark: marker{path, (*os.File).Sync}, lease: lease, live: live, log: log}
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if f.marked, err = f.mark.read(); err != nil {
		log.Warn("cannot read for how long clients may trust what was granted before: taking the longest lease", "err", err)
		f.marked = MaxLease
	}
	f.timer = time.AfterFunc(markerIdle, f.check)
	if f.marked > 0 {
		log.Warn("clients may hold what the server before this one granted: changes wait until they trust it no more", "time", f.marked)
		f.until = now + f.marked
		f.up.Store(true)
	}
	return f
}

// left returns for how long changes have to wait.
func (f *fence) left(now time.Duration) time.Duration {
	if f == nil || !f.up.Load() {
		return 0
	}
	if now < f.until {
		return f.until - now
	}
	f.up.Store(false)
	return 0
}

// enter says why no grant may be made; where it says nothing, the marker is there, and
// leave must follow.
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

// set writes the marker, and says why it is not there.
func (f *fence) set() delegation.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return delegation.ReasonOver
	case f.busy: // for as long as the disk likes, and a call that waits takes a place
		return delegation.ReasonContended
	case f.marked >= f.lease:
		return 0
	}
	f.used.Store(true)
	if err := f.wait(func() error { return f.mark.write(f.lease) }); err != nil {
		if !f.failed {
			f.log.Error("nothing is granted to clients, since no file can be written that would tell the next server of it: make its directory writable", "file", f.mark.path, "err", err)
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

// wait does something with the marker without mu, which the caller holds before and
// after.
func (f *fence) wait(do func() error) error {
	f.busy = true
	f.mu.Unlock()
	err := do()
	f.mu.Lock()
	f.busy = false
	return err
}

// check removes the marker when nothing was held for a while.
func (f *fence) check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch used := f.used.Swap(false); {
	case f.closed || f.marked == 0:
	case used || f.busy || f.live() > 0 || f.up.Load():
		f.timer.Reset(markerIdle)
	default:
		f.clear()
	}
}

// clear removes the marker. The caller holds mu, and nobody is busy. Where that fails,
// the file may be there or not: the next grant writes it anew.
func (f *fence) clear() {
	f.marked = 0
	if err := f.wait(f.mark.remove); err != nil {
		f.log.Warn("a file that says that clients hold something cannot be removed: after the next start, changes wait for a lease", "file", f.mark.path, "err", err)
	}
}

// close removes the marker if nobody holds anything, and all have given back what they
// held: who was not asked, or has not answered, may not know. Where the disk has not yet
// answered for the marker, that is left as it is, and not waited for.
func (f *fence) close(now time.Duration) {
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
	if f.marked > 0 && !f.busy && f.live() == 0 && f.left(now) == 0 {
		f.clear()
	}
}
