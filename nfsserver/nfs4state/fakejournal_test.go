package nfs4state

import (
	"errors"
	"slices"
)

// A journalFault says how a fakeJournal's call fails.
type journalFault uint8

const (
	noFault     journalFault = iota
	refused                  // an error, and nothing is stored
	doubtful                 // an error, although the records are stored
	crashBefore              // the server dies, and nothing is stored
	crashAfter               // the server dies when the records are stored
)

// A fakeJournal is stable storage in memory. Like a *journal.Journal, it rejects
// every Append after an error until Replace has succeeded.
type fakeJournal struct {
	records [][]byte
	next    journalFault // for the next calls
	times   int          // how many calls
	broken  bool
	dead    bool // the server has died: further calls have no effect
	calls   int
	size    int64
}

var errJournal = errors.New("the disk is full")

// runCall runs a call that stores records by store.
func (j *fakeJournal) runCall(store func()) error {
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
	return j.runCall(func() { j.records = append(slices.Clip(j.records), records...) })
}

func (j *fakeJournal) Replace(records func() [][]byte) error {
	list := records()
	return j.runCall(func() { j.records = list })
}

func (j *fakeJournal) Size() int64 { return j.size }

// restartProcess resets the journal to the state that the next process finds.
func (j *fakeJournal) restartProcess() { j.broken, j.dead, j.times = false, false, 0 }
