package standby

import (
	"bytes"
	"time"
)

// A Step is what a waiting host does next.
type Step int

// Steps of a Wait.
const (
	StepRead   Step = iota // read the beat, after a moment
	StepFence              // fence the silent host
	StepLock               // try to lock the directory
	StepUnlock             // give up the lock, because another host serves
	StepWrite              // write the own first beat
	StepServe
	StepRefuse // another host has this host's name
)

// A Wait decides when a waiting host may serve. It is a state machine without clock and storage:
// times are CLOCK_BOOTTIME in nanoseconds, and come from its caller.
type Wait struct {
	Tenure time.Duration // T of this host
	Host   string        // this host's name
	Boot   string        // its kernel's boot ID
	Fence  bool          // a silent host must be fenced

	seen     bool
	value    []byte // what the last read returned
	beat     Beat   // in value
	isBeat   bool
	first    int64 // end of the first read that returned value
	last     int64 // start of the last one
	fenced   bool  // the host that has written value is fenced
	namesake bool  // another host with this host's name is alive
	locked   bool
	lockTime int64
	own      []byte // the own first beat, when it is on stable storage
	ownTime  int64
}

// Read records the result of a read between two times that has succeeded. The content is empty if
// there is no beat.
func (w *Wait) Read(start, end int64, value []byte) {
	if w.seen && bytes.Equal(w.value, value) {
		w.last = start
		return
	}
	before := w.beat
	w.seen, w.value, w.first, w.last, w.fenced = true, bytes.Clone(value), end, start, false
	w.beat, w.isBeat = parseBeat(value)
	if w.isBeat && w.beat.Process == before.Process && w.beat.Host == w.Host && w.beat.Boot != w.Boot {
		w.namesake = true // this host before its last boot is silent
	}
}

// Fenced records that the host that has written the beat was fenced.
func (w *Wait) Fenced() { w.fenced = true }

// Locked records that the directory was locked at a time.
func (w *Wait) Locked(at int64) { w.locked, w.lockTime = true, at }

// Unlocked records that the lock was given up.
func (w *Wait) Unlocked() { w.locked, w.own = false, nil }

// Wrote records that the own first beat is on stable storage since a time.
func (w *Wait) Wrote(value []byte, at int64) { w.own, w.ownTime = bytes.Clone(value), at }

// Next returns the next step.
func (w *Wait) Next() Step {
	isOwn := w.own != nil && bytes.Equal(w.value, w.own)
	switch {
	case w.namesake:
		return StepRefuse
	case isOwn && w.last >= w.ownTime:
		return StepServe
	case w.own != nil && w.last < w.ownTime:
		return StepRead
	case w.own != nil || w.locked && !w.IsSilent():
		return StepUnlock
	case !w.IsSilent():
		return StepRead
	case w.NeedsFence():
		return StepFence
	case !w.locked:
		return StepLock
	case w.last < w.lockTime: // another host may have served between the last read and the lock
		return StepRead
	default:
		return StepWrite
	}
}

// IsSilent reports whether the host that served last has released the directory, or has shown no
// life for T.
func (w *Wait) IsSilent() bool {
	if !w.seen {
		return false
	}
	return w.isReleased() || w.last-w.first >= int64(w.silence())
}

func (w *Wait) isReleased() bool { return w.isBeat && w.beat.State == Released }

// silence returns how long a beat must not change: T of the host that has written it, or this host's
// if that is longer.
func (w *Wait) silence() time.Duration { return max(w.Tenure, w.beat.tenure()) }

// NeedsFence reports whether the silent host must be fenced. A silent host with this host's name is
// this host itself: an earlier process of it is gone when the lock is free, and so is everything from
// before its last boot. Nobody needs to be fenced if nobody has served.
func (w *Wait) NeedsFence() bool {
	return w.Fence && !w.fenced && !w.isReleased() && len(w.value) > 0 && w.beat.Host != w.Host
}

// Last returns the beat that was read last. It returns false if there is none.
func (w *Wait) Last() (Beat, bool) { return w.beat, w.isBeat }
