package fusefs

import "time"

// A loan is the set of names in a delegated directory, absent ones included, that
// the kernel may use without a LOOKUP. The node's mutex guards it.
type loan struct {
	lastTick uint64    // when the last name was lent
	until    time.Time // when the last lent name expires
	names    map[string]struct{}
	tooMany  bool // names is empty: too many are lent to recall individually

	nameChanges int  // our requests in flight that change names
	notifying   bool // a goroutine notifies the kernel of names (expireNames)
	notifyAgain bool // that goroutine must start again when done

	// Names in a directory with frequent recalls are not lent: recalling them costs
	// more than lending saves.
	recalls    int
	lastRecall time.Time // last recall
	notBefore  time.Time // nothing is lent before
}

// lendNameLocked records that the kernel may cache a name for life from now.
func (l *loan) lendNameLocked(name string, tick uint64, life time.Duration) {
	now := time.Now()
	if now.After(l.until) { // all loans have expired
		l.names, l.tooMany = nil, false
	}
	l.lastTick = tick
	if until := now.Add(life); until.After(l.until) {
		l.until = until
	}
	switch _, known := l.names[name]; {
	case l.tooMany || known:
		return
	case len(l.names) >= maxLent:
		l.names, l.tooMany = nil, true
		return
	case l.names == nil:
		l.names = make(map[string]struct{})
	}
	l.names[name] = struct{}{}
}

// countRecallLocked counts a recall of the directory, if names are lent.
func (l *loan) countRecallLocked(now time.Time) {
	if now.After(l.until) {
		return
	}
	if now.Sub(l.lastRecall) > recallSpan {
		l.recalls = 0
	}
	l.recalls, l.lastRecall = l.recalls+1, now
	if l.recalls >= manyRecalls {
		l.notBefore = now.Add(min(firstNoLend<<min(l.recalls-manyRecalls, 16), maxNoLend))
	}
}

// addNameChanges adds to the count of our requests in flight that change names in
// n. Until they are answered, the kernel does not process notifications about names
// in n.
func (n *node) addNameChanges(by int) {
	d := n.directoryState()
	n.mu.Lock()
	defer n.mu.Unlock()
	d.loan.nameChanges += by
}

// lendMovedName records that a name lent in n may become name in dir. The kernel
// then caches the new name for as long as it may cache the old one.
func (m *Mount) lendMovedName(n, dir *node, name string) {
	n.mu.Lock()
	life := time.Until(n.directoryState().loan.until)
	n.mu.Unlock()
	if life <= 0 {
		return
	}
	dir.mu.Lock()
	defer dir.mu.Unlock()
	dir.directoryState().loan.lendNameLocked(name, m.nextTick(), life)
}

// expireMovedName makes the kernel look up a name again that may have been lent in
// n and is in dir now, if dir is not delegated, so that no recall would do so. The
// kernel is executing the rename, and would delay a notification about the name.
func (m *Mount) expireMovedName(n, dir *node) {
	if n == dir {
		return
	}
	n.mu.Lock()
	tick, life := n.directoryState().loan.lastTick, time.Until(n.directoryState().loan.until)
	n.mu.Unlock()
	dir.mu.Lock()
	held := dir.grant != 0
	dir.mu.Unlock()
	if life > 0 && !held && !m.advanceEpoch(tick, m.nextTick()) {
		m.notifications.Go(func() { m.recallLentNames(dir) })
	}
}

// recallLentNames makes the kernel look up the names in n that it was lent before
// it uses them again, including names in replies in flight. It does not wait
// for requests.
//
// recallLentNames notifies the kernel of each name. For such a notification,
// however, the kernel waits for requests of ours about the directory. A request
// that changes the directory may wait for another mount, which waits for this
// mount. If such a request is in flight, the notifications take long, or there are
// many names, the kernel must therefore look up all names in the mount again, in
// every directory, which the kernel does without waiting. If that is not allowed
// (advanceEpoch), recallLentNames waits until the loan expires, which is before the
// lease expires.
func (m *Mount) recallLentNames(n *node) {
	told, tick, until := m.notifyLentNames(n)
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
	if m.advanceEpoch(tick, m.nextTick()) {
		return
	}
	select {
	case <-told:
	case <-time.After(time.Until(until)):
	}
}

// notifyLentNames starts a goroutine that notifies the kernel of each lent name in
// n, and returns a channel that is closed when that is done. It returns a nil
// channel if no name is lent, or the names cannot be sent individually now. tick is
// when the last name was lent, and until when the loan expires.
func (m *Mount) notifyLentNames(n *node) (told chan struct{}, tick uint64, until time.Time) {
	m.notifyMu.RLock()
	defer m.notifyMu.RUnlock()
	if m.notifyClosed {
		return nil, 0, until
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &n.directoryState().loan
	if time.Until(l.until) <= 0 || l.nameChanges > 0 || l.tooMany || l.notifying {
		return nil, l.lastTick, l.until
	}
	names := l.names
	l.notifying, l.names, told = true, nil, make(chan struct{})
	m.notifications.Go(func() {
		defer close(told)
		m.awaitNameReplies(n)
		m.expireNames(n, names)
	})
	return told, l.lastTick, l.until
}

// expireNames makes the kernel look up names in dir again before it uses them, and
// then all names in dir if expireAllNamesLocked requested that. The caller has set
// noting, so that at most one goroutine waits for the kernel.
func (m *Mount) expireNames(dir *node, names map[string]struct{}) {
	for name := range names {
		m.expireName(dir, name)
	}
	for m.finishNotifying(dir) {
		m.awaitNameReplies(dir)
		for _, name := range m.table.listNames(dir) {
			m.expireName(dir, name)
		}
	}
}

// finishNotifying ends the notifications about names in dir, or returns true if
// they must start again.
func (m *Mount) finishNotifying(dir *node) bool {
	dir.mu.Lock()
	defer dir.mu.Unlock()
	l := &dir.directoryState().loan
	again := l.notifyAgain
	l.notifyAgain, l.notifying = false, again
	return again
}

// expireAllNamesLocked starts a goroutine that makes the kernel look up all names
// in dir again.
func (m *Mount) expireAllNamesLocked(dir *node) {
	l := &dir.directoryState().loan
	l.notifyAgain = true
	if !l.notifying {
		l.notifying = true
		m.notifications.Go(func() { m.expireNames(dir, nil) })
	}
}
