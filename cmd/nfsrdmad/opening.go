package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// openTimeout is the time after which a directory that is still being opened counts as
// unavailable.
const openTimeout = 3 * time.Second

// An opening is a goroutine that opens an export's directory, which takes as long as its storage
// does not respond.
type opening struct {
	key  shareKey
	done chan struct{} // closed when fs and err are set
	fs   vfs.FS
	err  error
}

// startOpeningsLocked starts to open the directories of tolerated exports side by side, and
// returns a channel that is closed after openTimeout.
func (s *shareSet) startOpeningsLocked(list []exportSpec, tolerated []bool) (late <-chan struct{}) {
	started := false
	for i := range list {
		if e := &list[i]; tolerated[i] && e.fault == nil && s.findByStateLocked(s.state.exportDir(e)) == nil {
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

// startOpeningLocked returns the opening for the state of e, and starts it if there is none.
func (s *shareSet) startOpeningLocked(e *exportSpec) *opening {
	dir := s.state.exportDir(e)
	if op := s.openings[dir]; op != nil {
		return op
	}
	op := &opening{key: e.shareKey(), done: make(chan struct{})}
	s.openings[dir] = op
	spec := *e
	go func() {
		defer close(op.done)
		if spec.anyClient(func(o *exports.Options) bool { return o.CrossMnt }) {
			op.err = s.checkCrossing(spec.dir)
		}
		if op.err == nil && s.isWanted(op, dir) {
			op.fs, op.err = s.openExport(&spec)
		}
	}()
	return op
}

// isWanted reports whether op has not been dropped.
func (s *shareSet) isWanted(op *opening, dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.openings[dir] == op
}

// openLocked opens e's directory, without holding mu, and returns its ID in file handles. It
// waits no longer than until late is closed, if late is not nil.
func (s *shareSet) openLocked(e *exportSpec, late <-chan struct{}) (vfs.FS, uint32, error) {
	op, dir := s.startOpeningLocked(e), s.state.exportDir(e)
	s.mu.Unlock()
	select {
	case <-op.done:
	default:
		select {
		case <-op.done:
		case <-late:
			s.mu.Lock()
			return nil, 0, fmt.Errorf("%s does not respond: check its disk or its server", op.key.dir)
		}
	}
	s.mu.Lock()
	if s.openings[dir] != op { // Close has dropped it
		return nil, 0, errClosing
	}
	delete(s.openings, dir)
	if op.err != nil {
		return nil, 0, op.err
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
	return op.fs, id, err
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
	for i := range s.list {
		wanted[s.state.exportDir(&s.list[i])] = true
	}
	for dir, op := range s.openings {
		if wanted[dir] {
			continue
		}
		delete(s.openings, dir)
		go func() {
			if <-op.done; op.fs != nil {
				_ = op.fs.Close() // nothing was written
			}
		}()
	}
}
