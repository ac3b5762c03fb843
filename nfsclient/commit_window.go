package nfsclient

import "time"

// A commitWindow is the number of bytes to write unstably before a COMMIT. It
// shrinks while COMMIT takes hardly longer than a WRITE: then little memory is
// in use and stays in the processor's cache, and a program that wants its data
// stable waits only briefly. It doubles while COMMIT is slow, as on a disk, so
// that such waits are few.
type commitWindow struct {
	bytes     int64
	lastWrite time.Duration // duration of the last unstable WRITE
}

// recordWrite records the duration of an unstable WRITE.
func (l *commitWindow) recordWrite(took time.Duration) { l.lastWrite = took }

// recordCommit adjusts the window, at most to most bytes, by a COMMIT's
// duration.
func (l *commitWindow) recordCommit(took time.Duration, most int64) {
	if took > slowCommit*l.lastWrite {
		l.bytes = min(2*l.bytes, most)
	} else {
		l.bytes = max(l.bytes/2, min(minCommitWindow, most))
	}
}
