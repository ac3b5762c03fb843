package realm

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A Set is the set of exports at one time. It is immutable.
type Set struct {
	number uint64      // counts the sets of its Realm, from 1
	list   []*Exported // in the order of Config
	byID   map[uint32]*Exported
}

// newSet makes a set of c. Exports with the path and file system of an
// export in old share its source.
func newSet(c []Export, old *Set) (*Set, error) {
	set := &Set{number: 1, byID: make(map[uint32]*Exported)}
	if old != nil {
		set.number = old.number + 1
	}
	for i := range c {
		if err := c[i].check(); err != nil {
			return nil, err
		}
		e := newExport(&c[i], i)
		if before := old.byPath(e.Path); before != nil && sameFS(before.FS, e.FS) {
			e.source = before.source
		}
		if err := set.add(e); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func (set *Set) add(e *Exported) error {
	if set.byPath(e.Path) != nil {
		return fmt.Errorf("realm: %q is exported twice", e.Path)
	}
	if other := set.byID[e.ID]; other != nil {
		return fmt.Errorf("realm: exports %q and %q have the same ID %#x: set another", other.Path, e.Path, e.ID)
	}
	set.list = append(set.list, e)
	set.byID[e.ID] = e
	return nil
}

// byPath returns the export of a path, or nil.
func (set *Set) byPath(path string) *Exported {
	if set == nil {
		return nil
	}
	if i := slices.IndexFunc(set.list, func(e *Exported) bool { return e.Path == path }); i >= 0 {
		return set.list[i]
	}
	return nil
}

// changes reports whether the set takes away any access that clients have with
// old.
func (set *Set) changes(old *Set) bool {
	return slices.ContainsFunc(old.list, func(e *Exported) bool {
		after := set.byPath(e.Path)
		return after == nil || after.source != e.source || after.ID != e.ID || !slices.Equal(after.Clients, e.Clients)
	})
}

// sameFS reports whether two file systems are the same. File systems of an
// incomparable type never are.
func sameFS(a, b vfs.FS) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// SetExports replaces the exports with list, at once: a call that begins after
// SetExports has returned sees only the new exports. Running calls end with the
// exports with which they began. If an export keeps its Path and FS, its calls
// are not disturbed, even if its clients change; but then the clients'
// delegations are recalled. Handles of a removed export are Stale. An error
// names the invalid export; then nothing changes.
func (s *Realm) SetExports(list []Export) error {
	s.setting.Lock()
	defer s.setting.Unlock()
	old := s.set.Load()
	set, err := newSet(list, old)
	if err != nil {
		return err
	}
	for _, e := range set.list {
		e.source.setReleased(e.config.Released)
	}
	s.set.Store(set)
	if set.changes(old) {
		s.grants.RecallAll()
		s.holders.RecallAll()
	}
	for _, e := range old.list {
		if after := set.byPath(e.Path); after == nil || after.source != e.source {
			e.source.retire()
		}
	}
	return nil
}

// Exports returns the current exports, with the defaults set. The caller must
// not change the slices in it.
func (s *Realm) Exports() []Export {
	set := s.set.Load()
	list := make([]Export, len(set.list))
	for i, e := range set.list {
		list[i] = e.config
	}
	return list
}
