package nfsserver

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// An exportSet is the set of exports at one time. It is immutable.
type exportSet struct {
	number uint64    // counts the sets of its Server, from 1
	list   []*export // in the order of Config
	byID   map[uint32]*export
	listed int // size of the results of EXPORT in bytes
}

// newExportSet makes a set of c. Exports with the path and file system of an
// export in old share its source.
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

// changes reports whether the set takes away any access that clients have with
// old.
func (set *exportSet) changes(old *exportSet) bool {
	return slices.ContainsFunc(old.list, func(e *export) bool {
		after := set.byPath(e.path)
		return after == nil || after.source != e.source || after.id != e.id || !slices.Equal(after.clients, e.clients)
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
// delegations are recalled. Handles of a removed export are NFS3ERR_STALE. An
// error names the invalid export; then nothing changes.
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

// Exports returns the current exports, with the defaults set. The caller must
// not change the slices in it.
func (s *Server) Exports() []Export {
	set := s.set.Load()
	list := make([]Export, len(set.list))
	for i, e := range set.list {
		list[i] = e.config
	}
	return list
}
