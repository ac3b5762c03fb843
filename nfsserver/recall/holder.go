package recall

import "slices"

// A Holder holds one object.
type Holder struct {
	// Owner, if not 0, is the client that holds the object. If IgnoreOwner is set, that
	// client's own changes do not recall the object. Both are set before Hold.
	Owner       uint64
	IgnoreOwner bool

	// Yield, if not nil, releases whatever prevents Owner from changing the object. Then
	// Owner's own changes, unless IgnoreOwner is set, recall the object and call Yield, and do
	// not wait: the client may be unable to return the object before it has the reply. Yield is
	// called after Confirm, with no lock held, perhaps often and concurrently. It must not wait
	// for the client.
	Yield func()

	// Writer is not nil if the holder may change the object in its cache, without notice: the
	// object then has no other holder, and others must call BeginRead before they use the
	// object. Table.Writer returns the holder to callers that need to query it.
	Writer any

	// Recall tells the holder to return the object. It is called at most once, after Confirm,
	// with no lock held, and must not wait.
	Recall func()

	table *Table
	key   string
	group *group

	// group.mu guards these.
	confirmed  bool
	recalled   bool
	isReturned bool
	waiters    []*Change
}

// isOwnedBy reports whether a client's change comes from the client that holds the object.
func (h *Holder) isOwnedBy(client uint64) bool { return client != 0 && h.Owner == client }

// conflictsWith reports whether a client's change recalls the object from h.
func (h *Holder) conflictsWith(client uint64) bool { return !h.IgnoreOwner || !h.isOwnedBy(client) }

// Hold makes h a holder of an object. It returns false if a change of the object may be in
// progress, if one has recalled the object recently, or if h and another holder, in the Table or
// the HolderSet, exclude each other: then h holds nothing. Otherwise the caller must call Confirm
// or Return. What the caller reads from the object after Hold is current: a later change finds h.
func (t *Table) Hold(h *Holder, key []byte) bool {
	g := t.groupOf(key)
	now := t.config.Now()
	h.table, h.key, h.group = t, string(key), g
	// The object must be in the table before it is counted, because a change that finds the
	// count looks for it there.
	g.mu.Lock()
	o := g.ensureObject(key, now)
	if o.until > now || len(o.holders) > 0 && (h.Writer != nil || o.holders[0].Writer != nil) {
		g.mu.Unlock()
		return false
	}
	o.holders = append(o.holders, h)
	t.holders.Add(1)
	if h.Writer != nil {
		t.writers.Add(1)
	}
	blind := !t.total.addHolder()
	busy := !g.tally.addHolder()
	g.mu.Unlock()
	if blind {
		t.requireNames()
	}
	if blind || busy || h.Writer != nil && t.set != nil && t.set.Holds(key) {
		h.Return()
		return false
	}
	return true
}

// requireNames makes changes name their objects for a while: a steady flow of unnamed changes
// would otherwise prevent all holders.
func (t *Table) requireNames() { t.namedUntil.Store(int64(t.config.Now() + t.config.Pause)) }

// Confirm reports whether the object is held, and has not been recalled already; from then on
// it may be recalled. Otherwise the caller must call Return.
func (h *Holder) Confirm() bool {
	h.group.mu.Lock()
	defer h.group.mu.Unlock()
	h.confirmed = !h.recalled && !h.isReturned
	return h.confirmed
}

// HasWriters reports whether any object has a holder with a Writer, or may have had one in an
// earlier Table (IsFenced).
func (t *Table) HasWriters() bool { return t != nil && t.writers.Load() > 0 }

// WritersEnded returns the number of holders with a Writer that have ended so far. If the
// number is the same before and after a look at an object, and the object has no such holder
// afterwards, it had none that could have changed the object since.
func (t *Table) WritersEnded() uint64 {
	if t == nil {
		return 0
	}
	return t.writersEnded.Load()
}

// IsFenced reports whether all reads must wait, because of holders in an earlier Table
// (Config.Writing).
func (t *Table) IsFenced() bool {
	switch {
	case t == nil, !t.isFenced.Load():
		return false
	case t.config.Writing():
		return true
	case t.isFenced.CompareAndSwap(true, false):
		t.writers.Add(-1)
	}
	return false
}

// Writer returns the confirmed holder with a Writer that an object has, or nil if there is none
// or it belongs to client, which may be 0.
func (t *Table) Writer(client uint64, key []byte) *Holder {
	if !t.HasWriters() {
		return nil
	}
	g := t.groupOf(key)
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.findObject(key, t.config.Now())
	if o == nil || len(o.holders) == 0 {
		return nil
	}
	h := o.holders[0]
	if h.Writer == nil || !h.confirmed || client != 0 && h.Owner == client {
		return nil
	}
	return h
}

// Break recalls the object on behalf of a change that is not in the Table.
func (h *Holder) Break() {
	g := h.group
	g.mu.Lock()
	mustCall := h.markRecalled()
	if o := g.objects[h.key]; o != nil && !h.isReturned {
		g.pauseHolding(h.key, o, h.table.config.Now()+h.table.config.Pause)
	}
	g.mu.Unlock()
	if mustCall {
		h.Recall()
	}
}

// markRecalled marks h as recalled, and reports whether Recall must be called. group.mu is
// held.
func (h *Holder) markRecalled() (mustCall bool) {
	mustCall = h.confirmed && !h.recalled && !h.isReturned
	h.recalled = true
	return mustCall
}

// callRecalls calls the Recall functions of holders.
func callRecalls(holders []*Holder) {
	for _, h := range holders {
		h.Recall()
	}
}

// Return ends h: its client does not use the object any more. Return may be called twice.
func (h *Holder) Return() {
	t, g := h.table, h.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if h.isReturned {
		return
	}
	h.isReturned = true
	o := g.objects[h.key]
	o.holders = slices.DeleteFunc(o.holders, func(other *Holder) bool { return other == h })
	for _, ch := range h.waiters {
		ch.holderGone()
	}
	h.waiters = nil
	if h.Writer != nil {
		t.writersEnded.Add(1)
		t.writers.Add(-1)
	}
	t.holders.Add(-1)
	t.total.dropHolder()
	g.tally.dropHolder()
	g.dropUnused(h.key, t.config.Now())
}
