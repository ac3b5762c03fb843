package exportset

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A Snapshot is the exports in a Set at one time. It is immutable.
type Snapshot struct {
	number uint64      // counts the Set's snapshots, from 1
	list   []*Exported // in the order of Config
	byID   map[uint32]*Exported
}

// newSet returns a snapshot with the exports in c. Exports with the path and file system of an
// export in old share its source.
func newSet(c []Export, old *Snapshot) (*Snapshot, error) {
	set := &Snapshot{number: 1, byID: make(map[uint32]*Exported)}
	if old != nil {
		set.number = old.number + 1
	}
	for i := range c {
		if err := c[i].validate(); err != nil {
			return nil, err
		}
		e := newExport(&c[i], i)
		if before := old.byPath(e.Path); before != nil {
			e.Usage = before.Usage
			if isSameFS(before.FS, e.FS) {
				e.source = before.source
			}
		}
		if err := set.addExport(e); err != nil {
			return nil, err
		}
	}
	set.linkNested()
	return set, nil
}

func (set *Snapshot) addExport(e *Exported) error {
	if set.byPath(e.Path) != nil {
		return fmt.Errorf("exportset: %q is exported twice", e.Path)
	}
	for _, id := range []uint32{e.ID, e.config.RootID} {
		if id == 0 {
			continue
		}
		if other := set.byID[id]; other != nil {
			return fmt.Errorf("exportset: exports %q and %q have the same ID %#x: set another", other.Path, e.Path, id)
		}
		set.byID[id] = e
	}
	set.list = append(set.list, e)
	return nil
}

// byPath returns the export with a path, or nil.
func (set *Snapshot) byPath(path string) *Exported {
	if set == nil {
		return nil
	}
	if i := slices.IndexFunc(set.list, func(e *Exported) bool { return e.Path == path }); i >= 0 {
		return set.list[i]
	}
	return nil
}

// reducesAccess reports whether the snapshot takes away any access that clients have with old.
func (set *Snapshot) reducesAccess(old *Snapshot) bool {
	return slices.ContainsFunc(old.list, func(e *Exported) bool {
		if e.isUnavailable || e.isAutomount { // clients hold nothing there
			return false
		}
		after := set.byPath(e.Path)
		return after == nil || after.source != e.source || after.ID != e.ID || !slices.Equal(after.Clients, e.Clients)
	})
}

// isSameFS reports whether two file systems are the same. File systems of an incomparable type
// never are.
func isSameFS(a, b vfs.FS) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// SetExports replaces the exports with list, at once: a call that begins after SetExports has
// returned sees only the new exports. Running calls complete with the exports with which they
// began. If an export keeps its Path and FS, its calls are not disturbed, even if its clients
// change; but then the clients' delegations are recalled. Handles in a removed export are
// Stale. An error names the invalid export; then nothing changes. The functions that
// NotifyRemoval has registered have run when SetExports returns.
func (s *Set) SetExports(list []Export) error {
	s.setMu.Lock()
	defer s.setMu.Unlock()
	old := s.snapshot.Load()
	set, err := newSet(list, old)
	if err != nil {
		return err
	}
	for _, e := range set.list {
		e.source.setReleased(e.config.Released)
	}
	s.snapshot.Store(set)
	if set.reducesAccess(old) {
		s.holders.RecallAll()
	}
	removed := false
	for _, e := range old.list {
		if after := set.byPath(e.Path); after == nil || after.source != e.source {
			e.source.retire()
			removed = true
		}
		if set.byID[e.ID] == nil {
			s.removed.add(e.ID)
		}
	}
	if removed {
		for _, f := range s.onRemoval {
			f()
		}
	}
	return nil
}

// NotifyRemoval registers f to be called by each SetExports that removes exports, or gives them
// another file system: a program that keeps state for files ends the state of those for which
// IsRemoved returns true. f must not wait for storage.
func (s *Set) NotifyRemoval(f func()) {
	s.setMu.Lock()
	defer s.setMu.Unlock()
	s.onRemoval = append(s.onRemoval, f)
}

// Exports returns the current exports, with the defaults set. The caller must not change the
// slices in it.
func (s *Set) Exports() []Export {
	set := s.snapshot.Load()
	list := make([]Export, len(set.list))
	for i, e := range set.list {
		list[i] = e.config
	}
	return list
}
