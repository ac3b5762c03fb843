package recall

import "slices"

// A HolderSet contains holders that are not in a Table, because it grants and recalls objects by
// rules of its own. A change waits for the holders in both at the same time. The set counts its
// objects in the Table (Table.AddObject), so that only changes in their groups call it. Its
// methods are called with no lock held.
type HolderSet interface {
	// BeginChange announces that ch is about to change an object, and recalls the object from
	// its holders. It reports whether ch waits for no holder in the set. The set is called for
	// the same object again after each Wait.
	BeginChange(ch *Change, by Changer, key []byte) (ready bool)

	// Waits reports whether ch waits for a holder in the set. The set must call Change.Wake
	// when Waits has become false. It may call it at other times too, and after EndChange.
	Waits(ch *Change) bool

	// EndChange ends ch. If isPostponed is set, ch has not changed anything, and its client will
	// try again later.
	EndChange(ch *Change, isPostponed bool)

	// RecallAll recalls all objects. It does not wait.
	RecallAll()

	// Holds reports whether an object has a holder in the set, or will perhaps get one.
	Holds(key []byte) bool
}

// A Changer is the origin of a change. The zero value is not a client: no holder is spared.
type Changer struct {
	Client uint64 // as in Holder.Owner, or 0
	Conn   any    // the connection on which the change arrived, for the HolderSet; or nil
}

// AddSet makes changes wait for the holders in s too. It must be called at most once, before the
// Table is used.
func (t *Table) AddSet(s HolderSet) { t.set = s }

// AddObject counts an object of the HolderSet. From then on, each change of the object that
// begins calls the set. Changes that have begun before may still run: see IsBusy.
func (t *Table) AddObject(key []byte) {
	t.groupOf(key).tally.addHolder()
	t.total.addHolder()
}

// RemoveObject undoes AddObject.
func (t *Table) RemoveObject(key []byte) {
	t.total.dropHolder()
	t.groupOf(key).tally.dropHolder()
}

// IsBusy reports whether a change of an object, which the HolderSet has added, may have begun
// before AddObject, and still run, or whether a client is getting the right to change the object
// in its cache.
func (t *Table) IsBusy(key []byte) bool {
	if t.total.isBusy() {
		t.requireNames()
		return true
	}
	g := t.groupOf(key)
	if g.tally.isBusy() {
		return true
	}
	if !t.HasWriters() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.findObject(key, t.config.Now())
	return o != nil && slices.ContainsFunc(o.holders, func(h *Holder) bool { return h.Writer != nil && !h.confirmed })
}

// Wake wakes ch if it waits. The HolderSet calls it.
func (ch *Change) Wake() {
	select {
	case ch.woken <- struct{}{}:
	default: // it is awake already
	}
}
