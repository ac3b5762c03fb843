package recall

import (
	"slices"
	"time"
)

// A Holder holds one object.
type Holder struct {
	// Owner, if not 0, is the client that holds the object, and Conn, if not nil, the connection
	// on which it does. A change by that client, or on that connection, is the holder's own.
	Owner uint64
	Conn  any

	// If IgnoreOwner is set before Confirm, the holder's own changes do not recall the object
	// after Confirm.
	IgnoreOwner bool

	// Yield, if not nil, is called at the holder's own changes, after Recall, and releases
	// whatever prevents the owner from changing the object. Then these changes do not wait: the
	// client may be unable to return the object before it has the reply. Yield is set before
	// Confirm, and called after it, with no lock held, perhaps often and concurrently. It must
	// not wait for the client.
	Yield func()

	// RetryPause, if not 0, replaces Config.Pause: the object can be held again as soon as no
	// change runs, but not for this time after a change that must be tried again has waited for
	// this holder.
	RetryPause time.Duration

	// Writer is not nil if the holder may change the object in its cache, without notice: the
	// object then has no other holder, and others must call BeginRead before they use the
	// object. Table.Writer returns the holder to callers that need to query it.
	Writer any

	// Recall tells the holder to return the object, because of a change by a Changer or, if that
	// is zero, for any other reason. It is called at most once, after Confirm, with no lock held,
	// and must not wait for the client. It may call Return.
	Recall func(by Changer)

	table *Table
	key   string
	group *group

	// group.mu guards these.
	confirmed  bool
	recalled   bool
	broken     bool
	isReturned bool
	waiters    []*Change
}

// isOwnedBy reports whether a change is the holder's own.
func (h *Holder) isOwnedBy(by Changer) bool {
	return by.Client != 0 && h.Owner == by.Client || by.Conn != nil && h.Conn == by.Conn
}

// conflictsWith reports whether a change recalls the object from h. Before Confirm every change
// does. group.mu is held.
func (h *Holder) conflictsWith(by Changer) bool {
	return !h.confirmed || !h.IgnoreOwner || !h.isOwnedBy(by)
}

// IsAwaited reports whether anyone waits for h: a change, or the reason for Break.
func (h *Holder) IsAwaited() bool {
	h.group.mu.Lock()
	defer h.group.mu.Unlock()
	return h.broken || len(h.waiters) > 0
}

// Hold makes h a holder of an object. It returns false if a change of the object may be in
// progress, during a pause after an earlier change, or if h and another holder exclude each other:
// then h holds nothing. Otherwise the caller must call Confirm or Return. What the caller reads
// from the object after Hold is current: a later change finds h.
func (t *Table) Hold(h *Holder, key []byte) bool {
	g := t.groupOf(key)
	now := t.config.Now()
	h.table, h.key, h.group = t, string(key), g
	// The object must be in the table before it is counted, because a change that finds the
	// count looks for it there.
	g.mu.Lock()
	o := g.ensureObject(key, now)
	if o.retryUntil > now || h.RetryPause == 0 && o.until > now || len(o.holders) > 0 && (h.Writer != nil || o.holders[0].Writer != nil) {
		g.mu.Unlock()
		return false
	}
	o.holders = append(o.holders, h)
	if h.Writer != nil {
		t.writers.Add(1)
	}
	blind := !t.total.addHolder()
	busy := !g.tally.addHolder()
	g.mu.Unlock()
	if blind {
		t.requireNames()
	}
	if blind || busy {
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
	h.broken = true
	if o := g.objects[h.key]; o != nil && !h.isReturned {
		h.pauseAfterRecall(o, h.table.config.Now())
	}
	g.mu.Unlock()
	if mustCall {
		h.Recall(Changer{})
	}
}

// pauseAfterRecall begins the pause after a recall of h. group.mu is held.
func (h *Holder) pauseAfterRecall(o *object, now time.Duration) {
	if h.RetryPause == 0 {
		h.group.pauseHolding(h.key, o, &o.until, now+h.table.config.Pause)
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
func callRecalls(holders []*Holder, by Changer) {
	for _, h := range holders {
		h.Recall(by)
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
	t.total.dropHolder()
	g.tally.dropHolder()
	g.dropUnused(h.key)
}
