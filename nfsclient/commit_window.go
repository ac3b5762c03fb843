package nfsclient

import "time"

// A commitWindow is how many bytes to write unstably before a COMMIT. It
// shrinks while COMMIT takes hardly longer than a WRITE: then little memory
// circulates and is still in the processor's cache when reused, and a program
// that wants its data stable waits for little. It doubles while COMMIT is slow,
// as on a disk, so that such waits are few.
type commitWindow struct {
	bytes int64
	write time.Duration // duration of the last WRITE
}

// sent records the duration of a WRITE that did not wait for stable storage.
func (l *commitWindow) sent(took time.Duration) { l.write = took }

// settled records the duration of a COMMIT. The window never exceeds most.
func (l *commitWindow) settled(took time.Duration, most int64) {
	if took > slowCommit*l.write {
		l.bytes = min(2*l.bytes, most)
	} else {
		l.bytes = max(l.bytes/2, min(minLot, most))
	}
}
