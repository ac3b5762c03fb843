package recall

import "slices"

// A Holder holds one object.
type Holder struct {
	// Owner, if not 0, is the client that holds the object. With Mild, that
	// client's own changes leave the holder alone. Both are set before Hold.
	Owner uint64
	Mild  bool

	// Writer is not nil if the holder may change the object by itself, and nobody
	// else learns of that: the object then has no other holder, and others must
	// call BeginRead before they use the object. Table.Writer returns the holder to
	// those who need to ask.
	Writer any

	// Recall tells the holder to return the object. It is called at most once,
	// after Confirm, with no lock held, and must not wait.
	Recall func()

	table *Table
	key   string
	group *group

	// group.mu guards these.
	confirmed bool
	recalled  bool
	over      bool
	waiters   []*Change
}

// minds reports whether a change by a client recalls the object from h.
func (h *Holder) minds(client uint64) bool { return !h.Mild || client == 0 || h.Owner != client }

// Hold makes h a holder of an object. It returns false if a change of the object
// may be under way, if one has recalled the object lately, or if h and another
// holder exclude each other: then h is nothing.
// Otherwise Confirm or Return must follow. What the caller learns of the object
// after Hold is current: a later change finds h.
func (t *Table) Hold(h *Holder, key []byte) bool {
	g := t.group(key)
	now := t.config.Now()
	h.table, h.key, h.group = t, string(key), g
	// The object is in the table before it is counted, because a change that finds
	// the count looks for it there.
	g.mu.Lock()
	o := g.make(key, now)
	if o.until > now || len(o.holders) > 0 && (h.Writer != nil || o.holders[0].Writer != nil) {
		g.mu.Unlock()
		return false
	}
	o.holders = append(o.holders, h)
	if h.Writer != nil {
		t.writers.Add(1)
	}
	blind := !t.all.hold()
	busy := !g.tally.hold()
	g.mu.Unlock()
	if blind {
		t.look()
	}
	if blind || busy {
		h.Return()
		return false
	}
	return true
}

// look makes changes name their objects for a while: a steady flow of blind
// changes would otherwise keep everything from being held.
func (t *Table) look() { t.named.Store(int64(t.config.Now() + t.config.Pause)) }

// Confirm reports whether the object is held, and not recalled already; then it
// may be recalled from now on. Otherwise Return must follow.
func (h *Holder) Confirm() bool {
	h.group.mu.Lock()
	defer h.group.mu.Unlock()
	h.confirmed = !h.recalled && !h.over
	return h.confirmed
}

// Written reports whether any object has a holder with a Writer, or may have had one
// of an earlier Table (Fenced).
func (t *Table) Written() bool { return t != nil && t.writers.Load() > 0 }

// WritersGone returns how many holders with a Writer have ended so far. If the number is
// the same before and after a look at an object, and the object has no such holder after
// it, it had none that could have changed the object since.
func (t *Table) WritersGone() uint64 {
	if t == nil {
		return 0
	}
	return t.gone.Load()
}

// Fenced reports whether nobody may read anything, because of holders of an earlier
// Table (Config.Writing).
func (t *Table) Fenced() bool {
	switch {
	case t == nil, !t.fenced.Load():
		return false
	case t.config.Writing():
		return true
	case t.fenced.CompareAndSwap(true, false):
		t.writers.Add(-1)
	}
	return false
}

// Writer returns the confirmed holder with a Writer that an object has, or nil if
// there is none but that of client, which may be 0.
func (t *Table) Writer(client uint64, key []byte) *Holder {
	if !t.Written() {
		return nil
	}
	g := t.group(key)
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.get(key, t.config.Now())
	if o == nil || len(o.holders) == 0 {
		return nil
	}
	h := o.holders[0]
	if h.Writer == nil || !h.confirmed || client != 0 && h.Owner == client {
		return nil
	}
	return h
}

// Break recalls the object on behalf of a change that the Table does not know.
func (h *Holder) Break() {
	g := h.group
	g.mu.Lock()
	told := h.mark()
	if o := g.objects[h.key]; o != nil && !h.over {
		g.stop(h.key, o, h.table.config.Now()+h.table.config.Pause)
	}
	g.mu.Unlock()
	if told {
		h.Recall()
	}
}

// mark notes that h is recalled, and reports whether Recall must be called.
// group.mu is held.
func (h *Holder) mark() (told bool) {
	told = h.confirmed && !h.recalled && !h.over
	h.recalled = true
	return told
}

// tell calls Recall of holders.
func tell(holders []*Holder) {
	for _, h := range holders {
		h.Recall()
	}
}

// Return ends h: its client uses the object no longer. Return may be called
// twice.
func (h *Holder) Return() {
	t, g := h.table, h.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if h.over {
		return
	}
	h.over = true
	o := g.objects[h.key]
	o.holders = slices.DeleteFunc(o.holders, func(other *Holder) bool { return other == h })
	for _, ch := range h.waiters {
		ch.freed()
	}
	h.waiters = nil
	if h.Writer != nil {
		t.gone.Add(1)
		t.writers.Add(-1)
	}
	t.all.drop()
	g.tally.drop()
	g.forget(h.key, t.config.Now())
}
