package standby

import (
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
)

// A Status says what a Waiter waits for.
type Status struct {
	Phase string        // watching, fencing, locking or claiming
	Host  string        // the host that has written the last beat, or ""
	Age   time.Duration // since the beat was seen to change
	Err   error         // what failed last, or nil
	Retry time.Duration // until the next attempt to fence
	Hangs time.Duration // for how long an operation has not returned, or 0

	Released bool // the host has released the directory

	hasRead bool // the beat was read
	fencing bool // the command runs
}

// Status returns what w waits for.
func (w *Waiter) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := tenure.Now()
	m := &w.machine
	s := Status{Phase: "watching", Host: m.beat.Host, Err: w.err, Released: m.isReleased()}
	if s.hasRead = m.seen; m.seen {
		s.Age = time.Duration(now - m.first)
	}
	if busy := time.Duration(now - w.since); busy > responseLimit && w.step != StepFence {
		s.Hangs = busy
	}
	switch next := m.Next(); {
	case next == StepFence:
		s.Phase = "fencing"
		s.Retry = max(0, time.Duration(w.retryAt-now))
		s.fencing = w.step == StepFence && s.Retry == 0
		if w.fenceFailed != nil {
			s.Err = w.fenceFailed
		}
	case next == StepLock:
		s.Phase = "locking"
	case m.locked:
		s.Phase = "claiming"
	}
	return s
}

// Subject is String without what changes all the time.
func (s Status) Subject() string {
	return fmt.Sprint(s.Phase, s.Host, s.Err, s.hasRead, s.fencing, s.Hangs > 0)
}

// String returns the status as a sentence.
func (s Status) String() string {
	text := "standby: " + s.describePhase()
	if s.Err != nil {
		text += fmt.Sprintf("; %v", s.Err)
	}
	if s.Hangs > 0 {
		text += fmt.Sprintf("; the file system of the state directory has not responded for %s", formatSeconds(s.Hangs))
	}
	return text
}

func (s Status) describePhase() string {
	host := "host " + s.Host
	if s.Host == "" {
		host = "an unknown host"
	}
	switch {
	case s.Phase == "claiming":
		return "this host is taking over"
	case s.Phase == "fencing" && s.Retry > 0:
		return fmt.Sprintf("%s is silent for %s, and cannot be fenced; the next attempt is in %s", host, formatSeconds(s.Age), formatSeconds(s.Retry))
	case s.Phase == "fencing":
		return fmt.Sprintf("%s is silent for %s, and is being fenced", host, formatSeconds(s.Age))
	case s.Released:
		return host + " has stopped; this host takes over when the file system has given up its lock"
	case s.Phase == "locking":
		return fmt.Sprintf("%s is silent for %s; this host takes over when the file system has given up its lock", host, formatSeconds(s.Age))
	case !s.hasRead:
		return "this host finds out whether another one serves"
	case s.Host == "":
		return "no host has served yet; this host takes over when that remains so"
	default:
		return fmt.Sprintf("%s serves (seen %s ago); this host takes over when it is silent and the file system has given up its lock", host, formatSeconds(s.Age))
	}
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
