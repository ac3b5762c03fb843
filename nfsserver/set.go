package nfsserver

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// An exportSet is what is exported at one time. It does not change.
type exportSet struct {
	number uint64    // of its Server, from 1
	list   []*export // in the order of Config
	byID   map[uint32]*export
	listed int // bytes of the results of EXPORT
}

// newExportSet makes a set of what c says. Exports with the path and file system
// of one in old share its source.
func newExportSet(c []Export, old *exportSet) (*exportSet, error) {
	set := &exportSet{number: 1, byID: make(map[uint32]*export), listed: mount3.ListEnd}
	if old != nil {
		set.number = old.number + 1
	}
	for i := range c {
		if err := c[i].check(); err != nil {
			return nil, err
		}
		e := newExport(&c[i], i)
		if before := old.byPath(e.path); before != nil && sameFS(before.fs, e.fs) {
			e.source = before.source
		}
		if err := set.add(e); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func (set *exportSet) add(e *export) error {
	if set.byPath(e.path) != nil {
		return fmt.Errorf("nfsserver: %q is exported twice", e.path)
	}
	if other := set.byID[e.id]; other != nil {
		return fmt.Errorf("nfsserver: exports %q and %q have the same ID %#x: set another", other.path, e.path, e.id)
	}
	set.list = append(set.list, e)
	set.byID[e.id] = e
	set.listed += e.entry.Size()
	return nil
}

// byPath returns the export of a path, or nil.
func (set *exportSet) byPath(path string) *export {
	if set == nil {
		return nil
	}
	if i := slices.IndexFunc(set.list, func(e *export) bool { return e.path == path }); i >= 0 {
		return set.list[i]
	}
	return nil
}

// changes tells whether clients may not do with an export of old what they could.
func (set *exportSet) changes(old *exportSet) bool {
	return slices.ContainsFunc(old.list, func(e *export) bool {
		after := set.byPath(e.path)
		return after == nil || after.source != e.source || after.id != e.id || !slices.Equal(after.clients, e.clients)
	})
}

// sameFS tells whether two file systems are one. Those of a type that cannot be
// compared are not.
func sameFS(a, b vfs.FS) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// SetExports puts list in the place of what is exported, at once: a call that
// begins when it has returned sees the new exports alone. Calls under way end
// with those that they began with. An export whose Path and FS stay is not
// disturbed, whatever becomes of its clients, but what they hold by delegation counters
// is recalled; handles of one that is gone are
// NFS3ERR_STALE. The error names the export that is wrong; then nothing changes.
func (s *Server) SetExports(list []Export) error {
	s.setting.Lock()
	defer s.setting.Unlock()
	old := s.set.Load()
	set, err := newExportSet(list, old)
	if err != nil {
		return err
	}
	for _, e := range set.list {
		e.source.setReleased(e.config.Released)
	}
	s.set.Store(set)
	if set.changes(old) {
		s.grants.RecallAll()
	}
	for _, e := range old.list {
		if after := set.byPath(e.path); after == nil || after.source != e.source {
			e.source.retire()
		}
	}
	return nil
}

// Exports returns what is exported now, with the defaults filled in. The slices
// in it are not to be changed.
func (s *Server) Exports() []Export {
	set := s.set.Load()
	list := make([]Export, len(set.list))
	for i, e := range set.list {
		list[i] = e.config
	}
	return list
}
