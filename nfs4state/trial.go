package nfs4state

import "slices"

// A Trial is an OPEN that may still fail after State.OpenFile: by its effect on
// the file itself, which must not come before the check of share reservations.
// OpenFile fills it in, if it succeeds. Then Settle or Undo must follow.
type Trial struct {
	open   *Open // nil: OPEN_DOWNGRADE has taken the OPEN back
	mode   uint32
	added  bool   // the OPEN was the first that asked for these modes
	before uint32 // seqid
	after  uint32
}

// try makes t the Trial of an OPEN for some modes of o, which has yet to be
// added to o.
func (o *Open) try(t *Trial, mode uint32) {
	before := o.seqid.Load()
	*t = Trial{open: o, mode: mode, added: o.asked&(1<<mode) == 0, before: before, after: after(before)}
	o.trials = append(o.trials, t)
}

// asks tells the Trials of o that an OPEN for some modes has succeeded, which
// these must leave in force.
func (o *Open) asks(mode uint32) {
	for _, t := range o.trials {
		if t.mode == mode {
			t.added = false
		}
	}
}

// downgraded ends the Trials of OPENs whose modes an OPEN_DOWNGRADE has not left
// in asked. A later OPEN for the same modes is none of theirs.
func (o *Open) downgraded(asked uint16) {
	o.trials = slices.DeleteFunc(o.trials, func(t *Trial) bool {
		if asked&(1<<t.mode) != 0 {
			return false
		}
		t.open = nil
		return true
	})
}

// drop removes t from those of its Open.
func (t *Trial) drop() {
	i := slices.Index(t.open.trials, t)
	t.open.trials = slices.Delete(t.open.trials, i, i+1)
}

// Settle ends the Trial of an OPEN that has succeeded.
func (s *State) Settle(t *Trial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.open == nil {
		return
	}
	t.drop()
	t.open.asks(t.mode)
}

// Undo takes back an OPEN that has failed: its modes, unless another OPEN of the
// same owner has asked for them meanwhile, and the Open itself if it was made
// for them. The seqid returns to its old value, unless another OPEN or an OPEN_DOWNGRADE
// has advanced it further.
func (s *State) Undo(t *Trial) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := t.open
	if o == nil {
		return
	}
	t.drop()
	if s.slab.get(o.index) != &o.holding || o.closed.Load() {
		return // it was closed, or has ended with its client
	}
	if o.seqid.Load() == t.after {
		o.seqid.Store(t.before)
	}
	if !t.added {
		return
	}
	for _, other := range o.trials {
		if other.mode == t.mode {
			other.added = true // it may have to take them back instead
			return
		}
	}
	left := o.asked &^ (1 << t.mode)
	if left == 0 {
		s.closeOpen(o, &gone)
		return
	}
	s.setAsked(o, left)
	gone.add(s.config.Narrow(o.File, o.Access()))
}
