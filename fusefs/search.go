package fusefs

import (
	"errors"
	"math"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A search is who has been allowed to search a directory while its ctime, which
// a change of rights moves, was what it is here.
type search struct {
	ctime nfs3.Time
	by    []*caller
}

// noTime is a time that nothing has.
var noTime = nfs3.Time{Nsec: math.MaxUint32}

// recall answers a LOOKUP from what is known: the directory has not changed
// since the name was seen in it, the object's attributes may be believed, and
// the caller may search. The kernel is told of the object once more.
func (m *Mount) recall(o *op, dir *node, name string) *node {
	if m.cfg.Lookup == LookupNone {
		return nil
	}
	mtime, ok := m.maySearch(o, dir)
	if !ok {
		return nil
	}
	n := m.table.recall(dir, name, mtime)
	if n != nil && n.fresh() == 0 {
		m.table.forget(n.id, 1)
		return nil
	}
	return n
}

// maySearch tells whether the caller is known to be allowed to search dir, of
// which the attributes may be believed, and its mtime.
func (m *Mount) maySearch(o *op, dir *node) (mtime nfs3.Time, ok bool) {
	who := o.who()
	dir.mu.Lock()
	defer dir.mu.Unlock()
	if dir.freshLocked() == 0 {
		return mtime, false
	}
	return dir.attr.Mtime, m.public(&dir.attr) || dir.attr.Ctime == dir.search.ctime && dir.search.has(who)
}

// searched takes note that the server searched dir for a caller, or would not.
func (m *Mount) searched(o *op, dir *node, err error) {
	if err != nil && !errors.Is(err, nfs3.ErrNoEnt) {
		return
	}
	who := o.who()
	dir.mu.Lock()
	defer dir.mu.Unlock()
	s := &dir.search
	switch {
	case m.public(&dir.attr):
		return
	case s.ctime != dir.attr.Ctime || len(s.by) >= maxSearchers:
		s.ctime, s.by = dir.attr.Ctime, nil
	case s.has(who):
		return
	}
	s.by = append(s.by, who)
}

func (s *search) has(who *caller) bool {
	for _, c := range s.by {
		if c.same(who) {
			return true
		}
	}
	return false
}

// mtime returns the last mtime of a directory that the server told, or noTime.
func (n *node) mtime() nfs3.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known || n.until.IsZero() {
		return noTime
	}
	return n.attr.Mtime
}
