package fusefs

import "slices"

// unclaimed holds the losses of nodes that the kernel forgot before an fsync
// reported them. The next open file of the same handle reports them. The
// table's lock guards it.
type unclaimed struct {
	all   map[string]owed // keyed by file handle
	order []string        // oldest first
}

// keep takes over the unreported losses of n, for the next opener. It returns
// losses discarded to make room that no program was told of.
func (u *unclaimed) keep(n *node) (dropped []owed) {
	p := n.pending.Load()
	if p == nil {
		return nil
	}
	debt, any := p.losses.debt()
	if !any {
		return nil
	}
	if len(u.order) >= maxUnclaimed {
		oldest := u.order[0]
		if o := u.all[oldest]; o.untold() {
			dropped = append(dropped, o)
		}
		delete(u.all, oldest)
		u.order = slices.Delete(u.order, 0, 1)
	}
	if u.all == nil {
		u.all = make(map[string]owed)
	}
	fh := string(n.fh)
	u.all[fh] = debt
	u.order = append(u.order, fh)
	return dropped
}

// claim gives a new node the losses kept for its file.
func (u *unclaimed) claim(n *node) {
	debt, any := u.all[string(n.fh)]
	if !any {
		return
	}
	n.pend().losses.owed = debt
	delete(u.all, string(n.fh))
	u.order = slices.DeleteFunc(u.order, func(fh string) bool { return fh == string(n.fh) })
}

// complainLost logs losses that no program was told of.
func (m *Mount) complainLost(list []owed) {
	for i := range list {
		m.cfg.Log.Error("written data is lost, and no program got the error", "source", m.cfg.Source, "err", list[i].err)
	}
}

// untold returns all losses that no program was told of.
func (t *table) untold() (list []owed) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, o := range t.unclaimed.all {
		if o.untold() {
			list = append(list, o)
		}
	}
	for _, n := range t.nodes {
		if p := n.pending.Load(); p != nil {
			if o, _ := p.losses.debt(); o.untold() {
				list = append(list, o)
			}
		}
	}
	return list
}
