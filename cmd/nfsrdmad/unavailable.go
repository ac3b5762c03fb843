package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
)

// retryInterval is the time after which unavailable exports are tried again.
const retryInterval = 3 * time.Second

// retryExports serves the unavailable exports that can now be served, and the submounts that exist
// now. If the exports file has been corrected, it is reloaded first.
func (o *serveOptions) retryExports(ctx context.Context, s *shareSet, log *slog.Logger) {
	s.logHiddenMounts(log)
	s.scanSubvolumes()
	waiting, changed := s.hasUnavailable(), s.haveSubmountsChanged()
	if !waiting && !changed {
		return
	}
	if waiting && o.hasExportsFileSettled() && o.reloadExports(ctx, s, log) == nil {
		return
	}
	list := s.exportedList()
	for i := range list {
		if e := &list[i]; !e.broken {
			e.fault = nil
		}
	}
	o.findFaults(ctx, list)
	taken, keep, drop, err := s.acquireShares(list, s.isUnavailable)
	if err != nil {
		return // the daemon is exiting
	}
	if maps.Equal(listReasons(taken), s.reasons()) && !changed {
		drop()
		return
	}
	if err := o.daemon.server.SetExports(taken); err != nil {
		drop()
		log.Error("cannot serve exports that have become available", "err", err)
		return
	}
	keep()
}

// hasExportsFileSettled reports whether the exports file has changed since the daemon read it, and
// is the same as at the last attempt: what an editor has written so far could lack exports.
func (o *serveOptions) hasExportsFileSettled() bool {
	sources, err := readSources(o.exportsFile)
	if err != nil {
		return false
	}
	before := o.retrySum
	o.retrySum = sumSources(sources)
	return o.retrySum != o.exportsSum && o.retrySum == before
}

// newUnavailable returns e as an export that cannot be served at present, because of fault.
// Without fsid= it has the ID in lastIDs, or the one with which it would be served first.
func newUnavailable(e *exportSpec, fault error, lastIDs map[string]uint32) nfsserver.Export {
	return nfsserver.Export{
		Path: e.name, Clients: e.clients, ID: e.lastID(lastIDs), RootID: e.rootID(),
		FS: exportset.Unavailable{Reason: fault.Error(), ClientsUnknown: e.broken}, Submount: e.isSubmount(),
	}
}

// lastID returns the ID in file handles that e had last, or the one that it would get first.
func (e *exportSpec) lastID(lastIDs map[string]uint32) uint32 {
	id, known := lastIDs[recordedPath(e.name)]
	switch {
	case e.fsid.Set():
		id = e.fsid.ID()
	case !known:
		id = hash32([]byte(e.name))
	}
	return id
}

// listReasons returns the reason why each unavailable export in list cannot be served, by path.
func listReasons(list []nfsserver.Export) map[string]string {
	reasons := make(map[string]string)
	for _, e := range list {
		if u, ok := e.FS.(exportset.Unavailable); ok && u.Automount == nil {
			reasons[e.Path] = u.Reason
		}
	}
	return reasons
}

// setReasonsLocked records why exports are unavailable, and logs what has changed.
func (s *shareSet) setReasonsLocked(reasons map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		if why := reasons[name]; s.unavailable[name] != why {
			s.log.Error("an export is unavailable: its clients wait until it can be served", "export", name, "err", why, "retry", retryInterval)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.unavailable)) {
		if _, still := reasons[name]; !still {
			s.log.Info("an export is not unavailable any more", "export", name)
		}
	}
	s.unavailable = reasons
}

// isUnavailable reports whether e has been exported, but cannot be served.
func (s *shareSet) isUnavailable(e *exportSpec) bool {
	_, ok := s.reasons()[e.name]
	return ok
}

func (s *shareSet) hasUnavailable() bool { return len(s.reasons()) > 0 }

// reasons returns the reason why each unavailable export cannot be served, by path. The caller
// must not change the map.
func (s *shareSet) reasons() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unavailable
}

// exportedList returns a copy of the list that keep has applied last.
func (s *shareSet) exportedList() []exportSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}
