package main

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A share is the opened directory of an export. A share stays open over changes
// of the exports that do not concern it. It is closed once its export is gone
// and the last call there has ended.
type share struct {
	key   shareKey
	state string // directory of its state
	fs    vfs.FS
	id    uint32 // in file handles
	uses  int    // number of exports of a Server that use it; 0: being closed
}

// A shareKey identifies a share. Exports with equal keys use the same share.
type shareKey struct {
	dir, name string
	fsid      exports.FSID
	checked   bool // for subtree_check
}

func (e *export) key() shareKey {
	return shareKey{e.dir, e.name, e.fsid, e.any(func(o *exports.Options) bool { return o.SubtreeCheck })}
}

// closeTime is how long the end of the daemon waits for storage that does not
// answer: once for a reload, and once for the shares.
const closeTime = 4 * time.Second

// errOver is the error of take after Close.
var errOver = errors.New("the daemon ends")

// shares is the set of open shares.
type shares struct {
	state *state
	log   *slog.Logger

	crossing func(dir string) error        // checkCrossing
	opener   func(*export) (vfs.FS, error) // openExport

	taking sync.Mutex // held by take, which may wait for a disk

	mu       sync.Mutex // never held during such a wait, because calls that end need it
	over     bool       // Close was called
	closed   sync.Cond  // signals that a share is closed, or Close was called
	open     map[shareKey]*share
	exported map[shareKey]bool
	errs     []error // from closing
}

func newShares(st *state, log *slog.Logger) *shares {
	s := &shares{state: st, log: log, crossing: checkCrossing, open: make(map[shareKey]*share)}
	s.opener = func(e *export) (vfs.FS, error) { return openExport(e, st, log) }
	s.closed.L = &s.mu
	return s
}

// take opens all shares of list that are not open yet, or none. The caller must
// call keep after it has exported them, or drop if that fails.
func (s *shares) take(list []export) (taken []nfsserver.Export, keep, drop func(), err error) {
	s.taking.Lock()
	defer s.taking.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var used []*share
	drop = func() {
		for _, sh := range used {
			s.release(sh)
		}
	}
	exported := make(map[shareKey]bool)
	promised := make(map[*share]bool)
	var errs []error
	for i := range list {
		e := &list[i]
		sh, err := s.shareLocked(e)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%w", e.place, err))
			continue
		}
		if !s.exported[sh.key] {
			sh.uses++
			used = append(used, sh)
		}
		exported[sh.key] = true
		promised[sh] = e.any(func(o *exports.Options) bool { return o.Exclusive })
		taken = append(taken, nfsserver.Export{
			Path: e.name, FS: sh.fs, Clients: e.clients, ID: sh.id,
			Released: func() { s.release(sh) },
		})
	}
	if len(errs) > 0 {
		for _, sh := range used {
			s.releaseLocked(sh)
		}
		return nil, nil, nil, errors.Join(errs...)
	}
	keep = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.exported = exported
		for sh, exclusive := range promised {
			if fs, ok := sh.fs.(interface{ SetExclusive(bool) }); ok {
				fs.SetExclusive(exclusive)
			}
		}
	}
	return taken, keep, drop, nil
}

// shareLocked returns the share of e, and opens it if necessary, without mu. If
// the same share is being closed, shareLocked waits for the end of that.
func (s *shares) shareLocked(e *export) (*share, error) {
	if e.any(func(o *exports.Options) bool { return o.CrossMnt }) {
		s.mu.Unlock()
		err := s.crossing(e.dir)
		s.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	key, dir := e.key(), s.state.ofExport(e)
	for {
		other := s.usingLocked(dir)
		switch {
		case s.over:
			return nil, errOver
		case other == nil:
			s.mu.Unlock()
			fs, id, err := s.openShare(e)
			s.mu.Lock()
			if err == nil && s.over { // Close has not seen it
				s.mu.Unlock()
				err = errors.Join(errOver, fs.Close())
				s.mu.Lock()
			}
			if err != nil {
				return nil, err
			}
			sh := &share{key: key, state: dir, fs: fs, id: id}
			s.open[key] = sh
			return sh, nil
		case other.uses == 0:
			s.closed.Wait()
		case other.key == key:
			return other, nil
		default:
			return nil, fmt.Errorf("%s replaces %s, which has the same fsid and is still exported: remove the old one, send SIGHUP, then add the new one",
				e.dir, other.key.dir)
		}
	}
}

// openShare opens the directory of e, and returns its identity in file handles.
func (s *shares) openShare(e *export) (vfs.FS, uint32, error) {
	fs, err := s.opener(e)
	if err != nil {
		return nil, 0, err
	}
	id, err := s.identify(e, fs)
	if err != nil {
		return nil, 0, errors.Join(err, fs.Close())
	}
	return fs, id, nil
}

// identify returns the identity of an export in file handles.
func (s *shares) identify(e *export, served vfs.FS) (uint32, error) {
	if e.fsid.Set() {
		return e.fsid.ID(), nil
	}
	var root []byte
	if p, ok := served.(interface{ RootID() []byte }); ok {
		root = p.RootID()
	}
	return s.state.identity(e.name, root)
}

// usingLocked returns the share whose state is in dir, or nil.
func (s *shares) usingLocked(dir string) *share {
	for _, sh := range s.open {
		if sh.state == dir {
			return sh
		}
	}
	return nil
}

// release ends one use of a share.
func (s *shares) release(sh *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(sh)
}

// releaseLocked ends one use of a share, unless Close has ended all.
func (s *shares) releaseLocked(sh *share) {
	if sh.uses == 0 {
		return
	}
	if sh.uses--; sh.uses > 0 {
		return
	}
	go func() { // closing may wait for a disk, and must not delay the caller
		err := sh.fs.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.errs = append(s.errs, err)
			s.log.Error("closing an export", "dir", sh.key.dir, "err", err)
		}
		delete(s.open, sh.key)
		s.closed.Broadcast()
	}()
}

// Close closes all shares. No call may use them any more. Close waits at most
// closeTime for storage that does not answer; the end of the process closes the
// rest. A longer wait would also keep the next daemon from the state directory.
func (s *shares) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.closed.Broadcast()
	for _, sh := range s.open {
		if sh.uses > 0 {
			sh.uses = 1
			s.releaseLocked(sh)
		}
	}
	late := false
	patience := time.AfterFunc(closeTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.closed.Broadcast()
	})
	defer patience.Stop()
	for len(s.open) > 0 && !late {
		s.closed.Wait()
	}
	for _, sh := range s.open {
		s.errs = append(s.errs, fmt.Errorf("%s was not closed, for its storage does not answer: look at its disk or its server", sh.key.dir))
	}
	return errors.Join(s.errs...)
}
