package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A share is the opened directory of an export. It stays open across changes of other
// exports, and is closed when its export has been removed and the last call there has
// completed.
type share struct {
	key   shareKey
	state string // directory of its state
	fs    vfs.FS
	id    uint32 // ID in file handles
	at    placement
	refs  int // number of a Server's exports that use it; 0: being closed

	scanning bool // see scanSubvolumes
}

// A shareKey identifies a share. Exports with equal keys use the same share.
type shareKey struct {
	dir, name string
	fsid      exports.FSID
	checked   bool // has subtree_check
	mountID   uint64
	subvolID  uint64
}

func (e *exportSpec) shareKey() shareKey {
	return shareKey{e.dir, e.name, e.fsid, e.anyClient(func(o *exports.Options) bool { return o.SubtreeCheck }), e.mountID, e.subvolID}
}

// closeTimeout is how long an exiting daemon waits for storage that does not respond: once
// for a reload, and once for the shares.
const closeTimeout = 4 * time.Second

// errClosing is the error of acquireShares after Close.
var errClosing = errors.New("the daemon is exiting")

// shareSet is the set of open shares.
type shareSet struct {
	state *stateDir
	log   *slog.Logger

	findPlacement func(*exportSpec) placement       // findPlacement
	openExport    func(*exportSpec) (vfs.FS, error) // openExport
	listMounts    func() ([]mountinfo.Mount, error) // mountinfo.All

	triggerAutomount func(dir string) error // triggerAutomount

	acquireMu      sync.Mutex      // held by acquireShares, which may wait for a disk
	automountNames map[string]bool // recordedPath of each automount that acquireShares has found

	mu          sync.Mutex // never held during such a wait, because completing calls need it
	closing     bool       // Close was called
	closed      sync.Cond  // signals that a share was closed, or Close was called
	open        map[shareKey]*share
	openings    map[string]*opening // by the directory of the share's state
	exported    map[shareKey]bool
	list        []exportSpec          // exported, or unavailable
	submounts   []exportSpec          // likewise, of exports in list
	left        []string              // submounts and subvolumes that are not exported
	hidden      map[string]string     // see logHiddenMounts
	automounts  map[string]*automount // by the path of the export
	isPlacing   bool                  // see placeAutomountsLocked
	triggering  int                   // automounts that are being triggered, for less than triggerTimeout
	hung        int                   // automounts that are being triggered for longer
	unavailable map[string]string     // reasons, by path
	errs        []error               // errors from closing
}

func newShareSet(st *stateDir, log *slog.Logger) *shareSet {
	s := &shareSet{state: st, log: log, findPlacement: findPlacement, listMounts: mountinfo.All, triggerAutomount: triggerAutomount, automounts: make(map[string]*automount), open: make(map[shareKey]*share), openings: make(map[string]*opening)}
	s.openExport = func(e *exportSpec) (vfs.FS, error) { return openExport(e, st, log) }
	s.closed.L = &s.mu
	return s
}

// acquireShares opens all shares in list that are not open yet, or none; an export that cannot be
// served is unavailable if tolerate returns true for it. The caller must call keep after it has
// exported them, or drop if that fails. The submounts of exports with crossmnt are added to list.
func (s *shareSet) acquireShares(list []exportSpec, tolerate func(*exportSpec) bool) (taken []nfsserver.Export, keep, drop func(), err error) {
	tolerated := make([]bool, len(list))
	for i := range list {
		tolerated[i] = tolerate(&list[i])
	}
	s.acquireMu.Lock()
	defer s.acquireMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	a := acquisition{shareSet: s, exported: make(map[shareKey]bool), promised: make(map[*share]bool), lastIDs: sync.OnceValue(s.state.lastIDs)}
	a.acquireLocked(list, tolerated)
	submounts, left := s.findSubmountsLocked(list)
	s.automountNames = listAutomountNames(submounts)
	a.acquireLocked(submounts, slices.Repeat([]bool{true}, len(submounts)))
	subvolumes, more := s.findSubvolumesLocked(slices.Concat(list, submounts))
	a.acquireLocked(subvolumes, slices.Repeat([]bool{true}, len(subvolumes)))
	submounts = append(submounts, subvolumes...)
	s.logLeftLocked(slices.Concat(left, more, a.left))
	if len(a.errs) > 0 {
		for _, sh := range a.used {
			s.releaseLocked(sh)
		}
		return nil, nil, nil, errors.Join(a.errs...)
	}
	drop = func() {
		for _, sh := range a.used {
			s.releaseShare(sh)
		}
	}
	keep = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.exported, s.list, s.submounts = a.exported, slices.Clone(list), submounts
		s.dropAutomountsLocked()
		s.setReasonsLocked(listReasons(a.taken))
		s.dropOpeningsLocked()
		for sh, exclusive := range a.promised {
			if fs, ok := sh.fs.(interface{ SetExclusive(bool) }); ok {
				fs.SetExclusive(exclusive)
			}
		}
	}
	return a.taken, keep, drop, nil
}

// An acquisition is the work of acquireShares.
type acquisition struct {
	*shareSet
	taken    []nfsserver.Export
	used     []*share // acquired, in addition to those exported before
	exported map[shareKey]bool
	promised map[*share]bool // whether each is exclusive
	left     []string        // directories of submounts that are not exported
	errs     []error
	lastIDs  func() map[string]uint32
}

// acquireLocked acquires the shares of the exports in list, without holding mu. Tolerated exports
// that cannot be served are unavailable.
func (a *acquisition) acquireLocked(list []exportSpec, tolerated []bool) {
	s := a.shareSet
	late := s.startOpeningsLocked(list, tolerated)
	s.mu.Unlock()
	lastIDs := a.lastIDs()
	s.mu.Lock()
	s.placeAutomountsLocked(list)
	for i := range list {
		e := &list[i]
		if e.isAutomount && e.fault == nil {
			a.takeExport(e, s.newAutomountExportLocked(e, lastIDs))
			continue
		}
		var patience <-chan struct{}
		if tolerated[i] {
			patience = late
		}
		sh, err := s.acquireLocked(e, patience)
		if err != nil && e.isSubmount() && lastsAsMount(err) {
			a.left = append(a.left, e.dir)
			continue
		}
		if err != nil && tolerated[i] && !s.closing {
			a.takeExport(e, newUnavailable(e, err, lastIDs))
			continue
		}
		if err != nil {
			a.errs = append(a.errs, fmt.Errorf("%s%w", e.position, err))
			continue
		}
		if !s.exported[sh.key] {
			sh.refs++
			a.used = append(a.used, sh)
		}
		if !a.takeExport(e, nfsserver.Export{
			Path: e.name, FS: sh.fs, Clients: e.clients, ID: sh.id, RootID: e.rootID(), Submount: e.isSubmount(), MountedOn: sh.at.covered,
			Released: func() { s.releaseShare(sh) },
		}) {
			if !s.exported[sh.key] {
				a.used = a.used[:len(a.used)-1]
				s.releaseLocked(sh)
			}
			continue
		}
		if e.isTriggered {
			s.showRootLocked(e, sh.at.root)
		}
		a.exported[sh.key] = true
		a.promised[sh] = e.anyClient(func(o *exports.Options) bool { return o.Exclusive })
	}
}

// takeExport adds what is served for e. It leaves out a submount that has the ID of another export:
// IDs are hashes of paths, and a user of the host may choose the path of a mount.
func (a *acquisition) takeExport(e *exportSpec, served nfsserver.Export) bool {
	if e.isSubmount() && slices.ContainsFunc(a.taken, func(other nfsserver.Export) bool { return haveSameID(&other, &served) }) {
		a.left = append(a.left, e.dir)
		return false
	}
	a.taken = append(a.taken, served)
	return true
}

// haveSameID reports whether two exports have an ID in common.
func haveSameID(a, b *nfsserver.Export) bool {
	return a.ID == b.ID || a.ID == b.RootID || a.RootID == b.ID || a.RootID == b.RootID && a.RootID != 0
}

// acquireLocked returns the share for e, and opens it if necessary, without holding mu. If the
// same share is being closed, acquireLocked first waits until it is closed. It waits no longer
// than until late is closed, if late is not nil.
func (s *shareSet) acquireLocked(e *exportSpec, late <-chan struct{}) (*share, error) {
	if e.fault != nil {
		return nil, e.fault
	}
	key, dir := e.shareKey(), s.state.exportDir(e)
	for {
		other := s.findByStateLocked(dir)
		switch {
		case s.closing:
			return nil, errClosing
		case other == nil:
			op, id, err := s.openLocked(e, late)
			if err != nil {
				return nil, err
			}
			sh := &share{key: key, state: dir, fs: op.fs, id: id, at: op.at}
			s.open[key] = sh
			return sh, nil
		case e.isSubmount() && (other.refs == 0 || other.key != key):
			return nil, fmt.Errorf("%s: the file system that was there before is still in use", e.dir)
		case other.refs == 0:
			s.closed.Wait()
		case other.key == key:
			return other, nil
		default:
			return nil, fmt.Errorf("%s replaces %s, which has the same fsid and is still exported: remove the old one, send SIGHUP, then add the new one",
				e.dir, other.key.dir)
		}
	}
}

// exportID returns an export's ID in file handles.
func (s *shareSet) exportID(e *exportSpec, served vfs.FS) (uint32, error) {
	if e.fsid.Set() {
		return e.fsid.ID(), nil
	}
	var root []byte
	if p, ok := served.(interface{ RootID() []byte }); ok {
		root = p.RootID()
	}
	switch {
	case e.isTriggered:
		return s.state.assignAutomountIdentity(e.name, root, func(name string) bool { return s.automountNames[name] })
	case e.isSubmount():
		return s.state.identifySubmount(e.name, root)
	default:
		return s.state.assignIdentity(e.name, root)
	}
}

// findByStateLocked returns the share whose state is in dir, or nil.
func (s *shareSet) findByStateLocked(dir string) *share {
	for _, sh := range s.open {
		if sh.state == dir {
			return sh
		}
	}
	return nil
}

// releaseShare drops a reference to a share.
func (s *shareSet) releaseShare(sh *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(sh)
}

// releaseLocked drops a reference to a share, unless Close has dropped all. It closes the
// share when there are no more references.
func (s *shareSet) releaseLocked(sh *share) {
	if sh.refs == 0 {
		return
	}
	if sh.refs--; sh.refs > 0 {
		return
	}
	go func() { // closing may wait for a disk, and must not delay the caller
		err := sh.fs.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.errs = append(s.errs, err)
			s.log.Error("cannot close an export", "dir", sh.key.dir, "err", err)
		}
		delete(s.open, sh.key)
		s.closed.Broadcast()
	}()
}

// Close closes all shares. No call may use them any more. Close waits at most closeTimeout for
// storage that does not respond; process exit closes the rest. A longer wait would also block
// the next daemon from using the state directory.
func (s *shareSet) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.closed.Broadcast()
	for _, sh := range s.open {
		if sh.refs > 0 {
			sh.refs = 1
			s.releaseLocked(sh)
		}
	}
	s.list = nil
	s.dropOpeningsLocked()
	late := false
	patience := time.AfterFunc(closeTimeout, func() {
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
		s.errs = append(s.errs, fmt.Errorf("%s was not closed, because its storage does not respond: check its disk or its server", sh.key.dir))
	}
	return errors.Join(s.errs...)
}
