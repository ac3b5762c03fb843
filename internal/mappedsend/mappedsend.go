// Package mappedsend bounds the number of threads that wait for the data of files
// that are sent from their mappings.
//
// The kernel fetches a page that has left memory during the system call that sends
// it. If the disk does not respond, the call occupies its thread, and so do other
// calls on the same socket. The runtime aborts a process with 10,000 threads, and
// the system may permit fewer. One bound applies to all transports, because they
// share the threads.
//
// The package must not depend on what is sent, or how.
package mappedsend

import (
	"sync/atomic"
	"time"
)

const (
	// Most is the number of calls that may read from mappings at once. As long as
	// disks respond there are hardly more of them than processors.
	Most = 256

	// minPause and maxPause bound the interval at which Await tries again:
	// thousands of connections may do so while a disk does not respond for minutes.
	minPause = 10 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

var callCount atomic.Int32

// Enter counts a call, and reports whether it may be made. If so, the caller must
// call Leave after it.
func Enter() bool {
	if callCount.Add(1) <= Most {
		return true
	}
	Leave()
	return false
}

// Await waits until Enter succeeds. It occupies no thread while it waits. It
// returns false when hasEnded, which is called periodically, returns true.
func Await(hasEnded func() bool) bool {
	for pause := minPause; !Enter(); pause = min(2*pause, maxPause) {
		if hasEnded() {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// Leave records the end of a call.
func Leave() { callCount.Add(-1) }

// IsCrowded reports whether so many calls are in progress that their disks probably
// do not respond. No further data should be sent from mappings then: data on other
// disks can be read into buffers.
func IsCrowded() bool { return callCount.Load() > Most/2 }
