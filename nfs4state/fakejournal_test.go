package nfs4state

import (
	"errors"
	"slices"
)

// A journalFault is how a call of a fakeJournal goes wrong.
type journalFault uint8

const (
	noFault     journalFault = iota
	refused                  // an error, and nothing is stored
	doubtful                 // an error, although the records are stored
	crashBefore              // the server dies, and nothing is stored
	crashAfter               // the server dies when the records are stored
)

// A fakeJournal is stable storage in memory. Like a *journal.Journal, it refuses
// every Append after an error until Replace has succeeded.
type fakeJournal struct {
	records [][]byte
	next    journalFault // of the next calls
	times   int          // how many calls
	broken  bool
	dead    bool // the server has died: nobody hears of any further call
	calls   int
	size    int64
}

var errJournal = errors.New("the disk is full")

// call makes a call that stores records by store.
func (j *fakeJournal) call(store func()) error {
	j.calls++
	fault := noFault
	if j.times > 0 {
		j.times--
		fault = j.next
	}
	if j.dead {
		return errJournal
	}
	if fault == noFault || fault == doubtful || fault == crashAfter {
		store()
		j.size = 0
		for _, r := range j.records {
			j.size += int64(len(r))
		}
	}
	j.dead = fault >= crashBefore
	j.broken = fault != noFault
	if j.broken {
		return errJournal
	}
	return nil
}

func (j *fakeJournal) Append(records ...[]byte) error {
	if j.broken {
		j.calls++
		return errJournal
	}
	return j.call(func() { j.records = append(slices.Clip(j.records), records...) })
}

func (j *fakeJournal) Replace(records func() [][]byte) error {
	list := records()
	return j.call(func() { j.records = list })
}

func (j *fakeJournal) Size() int64 { return j.size }

// restart is the journal as the next process finds it.
func (j *fakeJournal) restart() { j.broken, j.dead, j.times = false, false, 0 }
