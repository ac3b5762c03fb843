package fusefs

import "time"

// A loan is the names in a directory that is held, or that there are none, of which the
// kernel was told that it may use them without asking. It is under the node's lock.
type loan struct {
	tick  uint64    // of the last
	until time.Time // for the one that lasts longest
	names map[string]struct{}
	many  bool // names has none of them: there are too many to be taken back one by one

	changing int  // requests of ours under way that change names
	noting   bool // a goroutine tells the kernel of names (expireNames)
	again    bool // when that has done, it begins anew

	// What is recalled again and again is not lent: to take it back costs more.
	recalls  int
	recalled time.Time // the last time
	shy      time.Time // nothing is lent until then
}

// lendLocked notes that the kernel is told of a name, for so long.
func (l *loan) lendLocked(name string, tick uint64, life time.Duration) {
	now := time.Now()
	if now.After(l.until) { // nothing of what was lent is left
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

// changing counts requests of ours that change names in n, and are under way: the
// kernel does not look at notes about names in n until they are answered.
func (n *node) changing(by int) {
	d := n.asDir()
	n.mu.Lock()
	defer n.mu.Unlock()
	d.loan.changing += by
}

// mayMove notes that a name in n may become another one in dir: the kernel then believes
// that for as long as it was told to believe the first.
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

// forgetNames makes the kernel look up the names in n that it was lent before it uses
// them again, those in replies that are on their way too. It waits for no request.
//
// It tells the kernel of each name. But for such a note, the kernel waits for requests
// of ours about the directory, and one that changes it may wait for another mount that
// waits for us. So where one is under way, or the notes take long, or there are many
// names, the kernel has to look up all names of the mount anew, in whatever directory,
// for which it waits for nothing. Where that must not be, the time is waited for until
// which names are lent: it ends before the lease does.
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

// noteNames has a goroutine tell the kernel of each name in n that it was lent, if that is
// the way, and returns what is closed then, or else nil; when the last name was lent, and
// until when names are.
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

// expireNames makes the kernel look up names in dir again before it uses them, and
// after that all names where somebody has asked for it. The caller has set noting, so
// that one goroutine at most waits for the kernel.
func (m *Mount) expireNames(dir *node, names map[string]struct{}) {
	for name := range names {
		m.expireName(dir, name)
	}
	for m.notedNames(dir) {
		for _, name := range m.table.namesIn(dir) {
			m.expireName(dir, name)
		}
	}
}

// notedNames ends the notes about names in dir, and returns true where they have to
// begin anew.
func (m *Mount) notedNames(dir *node) bool {
	dir.mu.Lock()
	defer dir.mu.Unlock()
	l := &dir.asDir().loan
	again := l.again
	l.again, l.noting = false, again
	return again
}

// expireAllLocked has a goroutine make the kernel look up all names in dir again.
func (m *Mount) expireAllLocked(dir *node) {
	l := &dir.asDir().loan
	l.again = true
	if !l.noting {
		l.noting = true
		m.notes.Go(func() { m.expireNames(dir, nil) })
	}
}
