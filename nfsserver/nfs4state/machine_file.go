package nfs4state

import "slices"

// A machineFile has what a Machine has of one file.
type machineFile struct {
	machine *MachineRecord
	file    *file
	handles []machineHandle
	locks   map[*lockOwner]*ownerLocks
	shares  map[string]uint32 // modes by owner
	waits   waitSet
}

// A machineHandle is a filehandle by which a Machine has used a file, at least one in each export.
type machineHandle struct {
	handle  string
	mark    any  // see Lock.Mark
	removed bool // with its export: see Revoke
}

// useFile returns what m has of an object, after a call by a filehandle. The part and the shard are
// locked.
func (m *MachineRecord) useFile(key string, handle []byte, mark any) *machineFile {
	f := m.files[key]
	if f == nil {
		sh := m.state.shardOf(key)
		f = &machineFile{machine: m, file: sh.files[key]}
		if f.file == nil {
			f.file = sh.newFile(key)
		}
		if f.file.machines == nil {
			f.file.machines = make(map[*MachineRecord]*machineFile)
		}
		f.file.machines[m], m.files[key] = f, f
		m.state.addUsage(m.group, stateIDs, 1)
	}
	f.addHandle(handle, mark)
	return f
}

// useCost returns for how many stateids useFile counts, or false if m may have no state of an object
// by the filehandle. The object's file may be nil.
func (m *MachineRecord) useCost(key string, handle []byte, f *file) (cost int, ok bool) {
	own := m.files[key]
	if own == nil {
		cost = 1
	}
	known := own == nil || len(own.handles) < maxHandles || own.indexHandle(handle) >= 0
	return cost, known && !f.isWrittenByOther(nil) && len(m.files)+cost <= maxOpens
}

// removeIfUnused removes f if the Machine has nothing of the file.
func (f *machineFile) removeIfUnused() {
	if len(f.locks)+len(f.shares)+len(f.waits) > 0 {
		return
	}
	m := f.machine
	for _, handle := range f.handles {
		if m.handles[handle.handle] == f {
			delete(m.handles, handle.handle)
		}
	}
	delete(m.files, f.file.key)
	delete(f.file.machines, m)
	f.file.removeIfUnused()
	m.state.addUsage(m.group, stateIDs, -1)
}

// maxHandles bounds a machineFile's filehandles.
const maxHandles = 8

func (f *machineFile) indexHandle(handle []byte) int {
	return slices.IndexFunc(f.handles, func(h machineHandle) bool { return h.handle == string(handle) })
}

func (f *machineFile) addHandle(handle []byte, mark any) {
	switch i := f.indexHandle(handle); {
	case i < 0:
		h := machineHandle{handle: string(handle), mark: mark}
		f.handles = append(f.handles, h)
		f.machine.handles[h.handle] = f
	case f.handles[i].removed:
		f.handles[i].mark, f.handles[i].removed = mark, false
	}
}

// removeExports records for which handles removed returns true, and reports whether none is left. The
// Machine can still release its locks by all of them.
func (f *machineFile) removeExports(removed func(mark any) bool) bool {
	none := true
	for i := range f.handles {
		h := &f.handles[i]
		h.removed = h.removed || removed(h.mark)
		none = none && h.removed
	}
	return none
}

// FindKey returns the Key of an object of which the Machine has state by a filehandle. It also finds
// objects that were removed since.
func (m *MachineRecord) FindKey(handle []byte) (key string, ok bool) {
	defer m.state.mu.lockPart(m.part).unlock()
	if f := m.handles[string(handle)]; f != nil {
		return f.file.key, true
	}
	return "", false
}

// endMachineFile removes f with all that the Machine has of the file, until the State should be
// unlocked. It reports whether nothing is left.
func (s *State) endMachineFile(f *machineFile, deferred *deferredWork) bool {
	if !s.shedWaits(f.waits, deferred) {
		return false
	}
	for _, l := range f.locks {
		if !s.shedLocks(l, deferred) {
			return false
		}
		f.endLocks(l, deferred)
	}
	for owner := range f.shares {
		if !s.visitEntry(deferred) {
			return false
		}
		f.endShare(owner)
	}
	if !s.visitEntry(deferred) {
		return false
	}
	f.removeIfUnused()
	return true
}

// revokeMachineFile removes what a Machine has of a file. NLM has no status for that. State.mu is
// held, but released for moments.
func (s *State) revokeMachineFile(f *machineFile, deferred *deferredWork) {
	m, key := f.machine, f.file.key
	m.partlyReclaimed = true
	s.recordRevoked(&m.holder, key) // before the first step: another call may get what it releases
	for !s.endMachineFile(f, deferred) {
		if s.mu.pauseLocked(); m.files[key] != f {
			return
		}
	}
}
