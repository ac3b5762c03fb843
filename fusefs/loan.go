package fusefs

import "time"

// A loan is the set of names in a delegated directory, absent ones included,
// that the kernel may use without asking. The node's mutex guards it.
type loan struct {
	tick  uint64    // when the last name was lent
	until time.Time // of the name lent for longest
	names map[string]struct{}
	many  bool // names is empty: too many are lent to take back one by one

	changing int  // requests of ours under way that change names
	noting   bool // a goroutine notifies the kernel of names (expireNames)
	again    bool // that goroutine must begin anew when done

	// A directory with frequent recalls is not lent: taking names back costs
	// more than lending saves.
	recalls  int
	recalled time.Time // when last
	shy      time.Time // nothing is lent before
}

// lendLocked notes that the kernel may believe a name for life from now.
func (l *loan) lendLocked(name string, tick uint64, life time.Duration) {
	now := time.Now()
	if now.After(l.until) { // all loans have expired
		l.names, l.many = nil, false
	}
	l.tick = tick
	if until := now.Add(life); until.After(l.until) {
		l.until = until
	}
	switch _, known := l.names[name]; {
	case l.many || known:
		return
	case len(l.names) >= maxLent:
		l.names, l.many = nil, true
		return
	case l.names == nil:
		l.names = make(map[string]struct{})
	}
	l.names[name] = struct{}{}
}

// recallLocked counts a recall of the directory, if names are lent.
func (l *loan) recallLocked(now time.Time) {
	if now.After(l.until) {
		return
	}
	if now.Sub(l.recalled) > recallSpan {
		l.recalls = 0
	}
	l.recalls, l.recalled = l.recalls+1, now
	if l.recalls >= manyRecalls {
		l.shy = now.Add(min(firstShy<<min(l.recalls-manyRecalls, 16), maxShy))
	}
}

// changing counts requests of ours in flight that change names in n. Until they
// are answered, the kernel does not process notifications about names in n.
func (n *node) changing(by int) {
	d := n.asDir()
	n.mu.Lock()
	defer n.mu.Unlock()
	d.loan.changing += by
}

// mayMove notes that a name lent in n may become name in dir. The kernel then
// believes the new name for as long as it may believe the old one.
func (m *Mount) mayMove(n, dir *node, name string) {
	n.mu.Lock()
	life := time.Until(n.asDir().loan.until)
	n.mu.Unlock()
	if life <= 0 {
		return
	}
	dir.mu.Lock()
	defer dir.mu.Unlock()
	dir.asDir().loan.lendLocked(name, m.tick(), life)
}

// moved ends the kernel's trust in a name that may have been lent in n and is
// in dir now, if no recall of dir would end that: dir is not delegated. The
// kernel is just renaming, and would keep a notification about the name waiting.
func (m *Mount) moved(n, dir *node) {
	if n == dir {
		return
	}
	n.mu.Lock()
	tick, life := n.asDir().loan.tick, time.Until(n.asDir().loan.until)
	n.mu.Unlock()
	dir.mu.Lock()
	held := dir.grant != 0
	dir.mu.Unlock()
	if life > 0 && !held && !m.nextEpoch(tick, m.tick()) {
		m.notes.Go(func() { m.forgetNames(dir) })
	}
}

// forgetNames makes the kernel look up the names in n that it was lent before
// it uses them again, including names in replies in flight. It does not wait
// for requests.
//
// forgetNames notifies the kernel of each name. For such a notification,
// however, the kernel waits for requests of ours about the directory. A request
// that changes the directory may wait for another mount, which waits for this
// mount. If such a request is in flight, the notifications take long, or there
// are many names, the kernel must therefore look up all names of the mount
// anew, in every directory, which the kernel does without waiting. If that is
// not allowed (nextEpoch), forgetNames waits until the loan expires, which is
// before the end of the lease.
func (m *Mount) forgetNames(n *node) {
	told, tick, until := m.noteNames(n)
	if time.Until(until) <= 0 {
		return
	}
	if told != nil {
		select {
		case <-told:
			return
		case <-time.After(noteWait):
		}
	}
	if m.nextEpoch(tick, m.tick()) {
		return
	}
	select {
	case <-told:
	case <-time.After(time.Until(until)):
	}
}

// noteNames has a goroutine notify the kernel of each lent name in n, and
// returns a channel that is closed when that is done. It returns a nil channel
// if no name is lent, or the names cannot be sent one by one now. tick is when
// the last name was lent, and until when the loan expires.
func (m *Mount) noteNames(n *node) (told chan struct{}, tick uint64, until time.Time) {
	m.noting.RLock()
	defer m.noting.RUnlock()
	if m.noted {
		return nil, 0, until
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &n.asDir().loan
	if time.Until(l.until) <= 0 || l.changing > 0 || l.many || l.noting {
		return nil, l.tick, l.until
	}
	names := l.names
	l.noting, l.names, told = true, nil, make(chan struct{})
	m.notes.Go(func() {
		defer close(told)
		m.taken(n)
		m.expireNames(n, names)
	})
	return told, l.tick, l.until
}

// expireNames makes the kernel look up names in dir again before it uses them,
// and then all names in dir if expireAllLocked asked for that. The caller has
// set noting, so that at most one goroutine waits for the kernel.
func (m *Mount) expireNames(dir *node, names map[string]struct{}) {
	for name := range names {
		m.expireName(dir, name)
	}
	for m.notedNames(dir) {
		m.taken(dir)
		for _, name := range m.table.namesIn(dir) {
			m.expireName(dir, name)
		}
	}
}

// notedNames ends the notifications about names in dir, or returns true if they
// must begin anew.
func (m *Mount) notedNames(dir *node) bool {
	dir.mu.Lock()
	defer dir.mu.Unlock()
	l := &dir.asDir().loan
	again := l.again
	l.again, l.noting = false, again
	return again
}

// expireAllLocked has a goroutine make the kernel look up all names in dir
// again.
func (m *Mount) expireAllLocked(dir *node) {
	l := &dir.asDir().loan
	l.again = true
	if !l.noting {
		l.noting = true
		m.notes.Go(func() { m.expireNames(dir, nil) })
	}
}
