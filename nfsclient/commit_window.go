package nfsclient

import "time"

// A commitWindow is how many octets a server has in memory when it is asked to put them
// on stable storage. Where that takes hardly longer than a WRITE, lots are
// small: little memory goes round, is still in the processor's cache when it is
// used again, and nothing is left to do when a program wants its data stable.
// Where it takes longer, as with a disk, lots grow, so that such waits are few.
type commitWindow struct {
	octets int64
	write  time.Duration // what the last WRITE took
}

// sent notes what a WRITE took that did not wait for stable storage.
func (l *commitWindow) sent(took time.Duration) { l.write = took }

// settled notes what a COMMIT took. No lot is larger than most.
func (l *commitWindow) settled(took time.Duration, most int64) {
	if took > slowCommit*l.write {
		l.octets = min(2*l.octets, most)
	} else {
		l.octets = max(l.octets/2, min(minLot, most))
	}
}
