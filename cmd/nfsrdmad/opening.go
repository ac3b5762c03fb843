package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// openTimeout is the time after which a directory that is still being opened counts as
// unavailable.
const openTimeout = 3 * time.Second

// An opening is a goroutine that opens an export's directory, which takes as long as its storage
// does not respond.
type opening struct {
	key     shareKey
	done    chan struct{} // closed when fs and err are set, or fs is closed; guarded by shareSet.mu
	fs      vfs.FS
	err     error
	at      placement
	dropped bool // fs is not wanted any more; guarded by shareSet.mu
}

// startOpeningsLocked starts to open the directories of tolerated exports side by side, and
// returns a channel that is closed after openTimeout.
func (s *shareSet) startOpeningsLocked(list []exportSpec, tolerated []bool) (late <-chan struct{}) {
	started := false
	for i := range list {
		if e := &list[i]; tolerated[i] && e.fault == nil && !e.isAutomount && s.findByStateLocked(s.state.exportDir(e)) == nil {
			s.startOpeningLocked(e)
			started = true
		}
	}
	if !started {
		return nil
	}
	timeout := make(chan struct{})
	time.AfterFunc(openTimeout, func() { close(timeout) })
	return timeout
}

// startOpeningLocked returns the opening for the state of e, and starts it if there is none. An
// opening that has been dropped stays the only one until its directory is closed, because two must
// not use the same state at once.
func (s *shareSet) startOpeningLocked(e *exportSpec) *opening {
	dir := s.state.exportDir(e)
	if op := s.openings[dir]; op != nil {
		return op
	}
	op := &opening{key: e.shareKey(), done: make(chan struct{})}
	s.openings[dir] = op
	spec := *e
	go func() {
		op.at = s.findPlacement(&spec)
		if !s.isDropped(op) {
			op.fs, op.err = s.openExport(&spec)
		}
		if spec.isTriggered && op.fs != nil {
			op.at.root = fetchRootAttr(op.fs)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if op.dropped {
			s.closeDroppedLocked(op, dir)
		}
		close(op.done)
	}()
	return op
}

func (s *shareSet) isDropped(op *opening) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return op.dropped
}

// openLocked opens e's directory, without holding mu, and returns its ID in file handles. It
// waits no longer than until late is closed, if late is not nil.
func (s *shareSet) openLocked(e *exportSpec, late <-chan struct{}) (*opening, uint32, error) {
	op, err := s.awaitOpeningLocked(e, late)
	if err == nil {
		err = op.err
	}
	if err != nil {
		return nil, 0, err
	}
	s.mu.Unlock()
	id, err := s.identifyOpened(e, op)
	s.mu.Lock()
	if s.closing { // Close has missed it
		err = errors.Join(err, errClosing)
	}
	if err != nil {
		s.mu.Unlock()
		err = errors.Join(err, op.fs.Close())
		s.mu.Lock()
	}
	return op, id, err
}

// awaitOpeningLocked returns the completed opening for e, which is the caller's then. It waits
// without holding mu, and first for an earlier opening that has been dropped.
func (s *shareSet) awaitOpeningLocked(e *exportSpec, late <-chan struct{}) (*opening, error) {
	for !s.closing {
		op := s.startOpeningLocked(e)
		done := op.done
		s.mu.Unlock()
		isDone := isClosedBefore(done, late)
		s.mu.Lock()
		switch {
		case !isDone:
			return nil, fmt.Errorf("%s does not respond: check its disk or its server", op.key.dir)
		case !op.dropped:
			delete(s.openings, s.state.exportDir(e))
			return op, nil
		}
	}
	return nil, errClosing
}

// isClosedBefore waits until one of two channels is closed, and reports whether done is.
func isClosedBefore(done, late <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-late:
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// identifyOpened returns the ID in file handles of an export whose directory op has opened.
func (s *shareSet) identifyOpened(e *exportSpec, op *opening) (uint32, error) {
	if op.key != e.shareKey() {
		return 0, fmt.Errorf("%s, which has the same fsid, responds only now: %s is tried again", op.key.dir, e.dir)
	}
	return s.exportID(e, op.fs)
}

// dropOpeningsLocked closes the directories of openings whose exports are not in list any more,
// once they are open.
func (s *shareSet) dropOpeningsLocked() {
	wanted := make(map[string]bool)
	for _, e := range slices.Concat(s.list, s.submounts) {
		wanted[s.state.exportDir(&e)] = !e.isAutomount
	}
	for dir, op := range s.openings {
		if wanted[dir] || op.dropped {
			continue
		}
		op.dropped = true
		select {
		case <-op.done:
			op.done = make(chan struct{})
			go func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.closeDroppedLocked(op, dir)
				close(op.done)
			}()
		default: // its goroutine closes it
		}
	}
}

// closeDroppedLocked closes the directory of an opening that has been dropped, without holding mu.
func (s *shareSet) closeDroppedLocked(op *opening, dir string) {
	if op.fs != nil {
		s.mu.Unlock()
		_ = op.fs.Close() // nothing was written
		s.mu.Lock()
	}
	delete(s.openings, dir)
}
