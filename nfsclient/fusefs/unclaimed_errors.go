package fusefs

import "slices"

// unclaimedErrors holds the losses of nodes that the kernel forgot before an fsync
// reported them. The next open file of the same handle reports them. The
// table's lock guards it.
type unclaimedErrors struct {
	all   map[string]lastWriteError // keyed by file handle
	order []string                  // oldest first
}

// keepErrors retains n's unreported losses, for the next opener. It returns losses
// discarded to make space that were reported to no program.
func (u *unclaimedErrors) keepErrors(n *node) (dropped []lastWriteError) {
	p := n.pending.Load()
	if p == nil {
		return nil
	}
	debt, any := p.losses.unreportedError()
	if !any {
		return nil
	}
	if len(u.order) >= maxUnclaimed {
		oldest := u.order[0]
		if o := u.all[oldest]; o.isUnreported() {
			dropped = append(dropped, o)
		}
		delete(u.all, oldest)
		u.order = slices.Delete(u.order, 0, 1)
	}
	if u.all == nil {
		u.all = make(map[string]lastWriteError)
	}
	fh := string(n.fh)
	u.all[fh] = debt
	u.order = append(u.order, fh)
	return dropped
}

// claimErrors gives a new node the losses retained for its file.
func (u *unclaimedErrors) claimErrors(n *node) {
	debt, any := u.all[string(n.fh)]
	if !any {
		return
	}
	n.ensurePending().losses.lastWriteError = debt
	delete(u.all, string(n.fh))
	u.order = slices.DeleteFunc(u.order, func(fh string) bool { return fh == string(n.fh) })
}

// logLostData logs losses that were reported to no program.
func (m *Mount) logLostData(list []lastWriteError) {
	for i := range list {
		m.cfg.Log.Error("written data are lost, and no program received the error", "source", m.cfg.Source, "err", list[i].err)
	}
}

// listUnreported returns all losses that were reported to no program.
func (t *nodeTable) listUnreported() (list []lastWriteError) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, o := range t.unclaimed.all {
		if o.isUnreported() {
			list = append(list, o)
		}
	}
	for _, n := range t.nodes {
		if p := n.pending.Load(); p != nil {
			if o, _ := p.losses.unreportedError(); o.isUnreported() {
				list = append(list, o)
			}
		}
	}
	return list
}
