package nfs4state

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Trial is an OPEN that may still fail after State.OpenFile: its effect on
// the file itself must not precede the check of share reservations. OpenFile
// fills it in if it succeeds. The caller must then call Settle or Undo.
type Trial struct {
	client *client
	open   *Open // nil: OPEN_DOWNGRADE has removed the OPEN's modes
	mode   uint32
	added  bool   // the OPEN was the first that requested these modes
	before uint32 // seqid before and after the OPEN
	after  uint32
}

// addTrial makes t the Trial of an OPEN whose mode is not yet added to o.
func (o *Open) addTrial(t *Trial, mode uint32) {
	before := o.seqid.Load()
	*t = Trial{client: o.client, open: o, mode: mode, added: o.requestedModes&(1<<mode) == 0, before: before, after: nextSeqID(before)}
	o.trials = append(o.trials, t)
}

// confirmModes makes o's Trials keep a mode, because an OPEN for it has succeeded.
func (o *Open) confirmModes(mode uint32) {
	for _, t := range o.trials {
		if t.mode == mode {
			t.added = false
		}
	}
}

// endDowngradedTrials ends the Trials whose modes are not in asked after an
// OPEN_DOWNGRADE. A later OPEN for the same modes does not affect them.
func (o *Open) endDowngradedTrials(asked uint16) {
	o.trials = slices.DeleteFunc(o.trials, func(t *Trial) bool {
		if asked&(1<<t.mode) != 0 {
			return false
		}
		t.open = nil
		return true
	})
}

// removeTrial removes t from its Open's trials.
func (t *Trial) removeTrial() {
	i := slices.Index(t.open.trials, t)
	t.open.trials = slices.Delete(t.open.trials, i, i+1)
}

// KeepTrial ends a Trial whose OPEN has succeeded.
func (s *State) KeepTrial(t *Trial) {
	var h hold
	s.lockClient(t.client, &h, false)
	defer s.unlock(&h)
	if t.open == nil {
		return
	}
	t.removeTrial()
	t.open.confirmModes(t.mode)
}

// RevertTrial reverts an OPEN that has failed: it removes its modes, unless another OPEN of the
// same owner has since requested them, and the Open itself if no modes remain. The seqid
// returns to its old value, unless another OPEN or an OPEN_DOWNGRADE has advanced it.
func (s *State) RevertTrial(t *Trial) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	for done := false; !done; {
		retryWhole(func(whole bool) (status nfs4.Status) {
			status, done = s.revertTrial(t, whole, &deferred)
			return status
		})
	}
}

// revertTrial reverts an OPEN until the State should be unlocked, and reports whether it is done.
func (s *State) revertTrial(t *Trial, whole bool, deferred *deferredWork) (status nfs4.Status, done bool) {
	s.lockClient(t.client, &deferred.hold, whole)
	defer s.unlock(&deferred.hold)
	o := t.open
	switch {
	case o == nil:
		return nfs4.OK, true
	case len(o.waits) > 0 && !deferred.isWhole():
		return statusNeedsState, false
	}
	s.lockFile(o.Key, &deferred.hold)
	if s.holdings.get(o.index) != &o.holding || o.closed.Load() {
		t.removeTrial()
		return nfs4.OK, true // closed, or removed with its client
	}
	left := o.requestedModes
	if t.added && t.otherTrial() == nil {
		left &^= 1 << t.mode
	}
	if o.reverting = left == 0; left == 0 && !s.shedOpen(o, deferred) {
		return nfs4.OK, false
	}
	t.removeTrial()
	if o.seqid.Load() == t.after {
		o.seqid.Store(t.before)
	}
	switch other := t.otherTrial(); {
	case t.added && other != nil:
		other.added = true // it may have to remove the modes instead
	case left == 0:
		s.closeOpen(o, deferred)
	case t.added:
		s.setRequestedModes(o, left)
		deferred.addFile(s.config.Narrow(o.File, o.Access()))
	}
	return nfs4.OK, true
}

// otherTrial returns another Trial of the same modes, or nil.
func (t *Trial) otherTrial() *Trial {
	for _, other := range t.open.trials {
		if other != t && other.mode == t.mode {
			return other
		}
	}
	return nil
}
