package server

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// A restartFence delays changes to objects that clients may still trust because
// of an earlier server's grants. A client that was disconnected from the
// earlier server knows neither that it stopped nor that this server started.
// Such a client trusts its cache until its lease expires.
//
// Therefore a marker is on stable storage whenever grants may be outstanding. A
// server that finds a marker when it starts does not know when the last grant
// was made or renewed. Changes then wait for a full lease time from the start,
// which is never shortened.
type restartFence struct {
	marker     grantMarker
	lease      time.Duration // for new grants
	liveGrants func() int    // returns the number of grants in force
	log        *slog.Logger
	clock      func() time.Duration

	raised      atomic.Bool   // changes may have to wait
	raisedUntil time.Duration // when the wait ends, by clock

	// A grant is made with mu held for reading, so that none can be made
	// between the count of grants and the removal of the marker. No goroutine
	// waits for the disk with mu held: an ACQUIRE that needs the marker during
	// that time is refused, and closeFence leaves the marker in place.
	mu           sync.RWMutex
	writing      bool          // the marker is being written or removed
	markedLease  time.Duration // lease time in the marker; 0: there is no marker
	recentlyUsed atomic.Bool   // a grant was made since the last check
	writeFailed  bool          // the marker could not be written, which was logged
	closed       bool
	timer        *time.Timer // calls removeIfIdle
}

// newFence returns a restartFence with its marker at path. If path is "", it
// returns nil, which delays nothing.
func newFence(path string, lease time.Duration, live func() int, log *slog.Logger, clock func() time.Duration) *restartFence {
	if path == "" {
		return nil
	}
	f := &restartFence{marker: grantMarker{path, (*os.File).Sync}, lease: lease, liveGrants: live, log: log, clock: clock}
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if f.markedLease, err = f.marker.readLease(); err != nil {
		log.Warn("cannot read the lease of earlier delegations: assuming the longest lease", "err", err)
		f.markedLease = MaxLease
	}
	f.timer = time.AfterFunc(markerIdle, f.removeIfIdle)
	if f.markedLease > 0 {
		log.Warn("clients may hold delegations from before the restart; changes wait until they expire", "time", f.markedLease)
		f.raisedUntil = clock() + f.markedLease
		f.raised.Store(true)
	}
	return f
}

// remainingWait returns the time for which changes must still wait.
func (f *restartFence) remainingWait() time.Duration {
	if f == nil || !f.raised.Load() {
		return 0
	}
	if left := f.raisedUntil - f.clock(); left > 0 {
		return left
	}
	f.raised.Store(false)
	return 0
}

// beginGrant returns the reason why no grant may be made. If it returns 0, the
// marker is on stable storage, and the caller must call endGrant.
func (f *restartFence) beginGrant() delegation.Reason {
	if f == nil {
		return 0
	}
	for {
		f.mu.RLock()
		if !f.closed && !f.writing && f.markedLease >= f.lease {
			f.recentlyUsed.Store(true)
			return 0
		}
		f.mu.RUnlock()
		if why := f.writeMarker(); why != 0 {
			return why
		}
	}
}

func (f *restartFence) endGrant() {
	if f != nil {
		f.mu.RUnlock()
	}
}

// writeMarker writes the marker, and returns a Reason if it could not.
func (f *restartFence) writeMarker() delegation.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return delegation.ReasonOver
	case f.writing: // the disk may take any time, and a waiting call occupies a goroutine
		return delegation.ReasonContended
	case f.markedLease >= f.lease:
		return 0
	}
	f.recentlyUsed.Store(true)
	fresh := f.markedLease == 0
	if err := f.runUnlocked(func() error { return f.marker.writeLease(f.lease, fresh) }); err != nil {
		if !f.writeFailed {
			f.log.Error("cannot write the delegation marker, so no delegations are granted: make its directory writable", "file", f.marker.path, "err", err)
		}
		f.writeFailed = true
		return delegation.ReasonLimit
	}
	f.markedLease, f.writeFailed = f.lease, false
	if !f.closed {
		f.timer.Reset(markerIdle)
	}
	return 0
}

// runUnlocked unlocks mu while it runs do, which accesses the marker file. The
// caller must hold mu.
func (f *restartFence) runUnlocked(do func() error) error {
	f.writing = true
	f.mu.Unlock()
	err := do()
	f.mu.Lock()
	f.writing = false
	return err
}

// removeIfIdle removes the marker if no grants were in force for markerIdle.
func (f *restartFence) removeIfIdle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch used := f.recentlyUsed.Swap(false); {
	case f.closed || f.markedLease == 0:
	case used || f.writing || f.liveGrants() > 0 || f.remainingWait() > 0:
		f.timer.Reset(markerIdle)
	default:
		f.removeMarker()
	}
}

// removeMarker removes the marker. The caller must hold mu, and writing must be
// false. After a failure the file may or may not exist; the next grant writes
// the marker again.
func (f *restartFence) removeMarker() {
	f.markedLease = 0
	if err := f.runUnlocked(f.marker.removeFile); err != nil {
		f.log.Warn("cannot remove the delegation marker: after the next start, changes wait for one lease time", "file", f.marker.path, "err", err)
	}
}

// closeFence removes the marker if no grants are in force and no wait for an
// earlier server's grants remains. Otherwise a client may still trust its
// cache, and the marker stays. If the marker is still being written or removed,
// closeFence leaves it unchanged and does not wait. It waits at most closeTime
// for the removal, which the disk may complete later.
func (f *restartFence) closeFence() {
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
	if f.markedLease == 0 || f.writing || f.liveGrants() > 0 || f.remainingWait() > 0 {
		return
	}
	removed := make(chan struct{})
	go func() {
		defer close(removed)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.removeMarker()
	}()
	f.mu.Unlock()
	defer f.mu.Lock()
	timeout := time.NewTimer(closeTime)
	defer timeout.Stop()
	select {
	case <-removed:
	case <-timeout.C:
		f.log.Warn("cannot remove the delegation marker, because its file system does not respond: after the next start, changes may wait for one lease time", "file", f.marker.path)
	}
}
