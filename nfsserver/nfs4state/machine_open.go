package nfs4state

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Machine's open-owners. A Machine locks an object, which it need not open,
// through lockOpener's Open; its other Opens are SHAREs.
const (
	lockOpener  = "L"
	shareOpener = "S" // followed by oh
)

// openForMachine returns a Machine's Open of an object, and creates one without modes if
// necessary. State.mu is held.
func (s *State) openForMachine(c *client, owner, key string, handle []byte, file any) (*Open, nfs4.Status) {
	if c.ended {
		return nil, nfs4.ErrBadSession
	}
	sh := s.shardOf(key)
	f := sh.files[key]
	if f != nil {
		if o := c.opens[openKey{owner: owner, file: f}]; o != nil {
			o.addName(handle)
			return o, nfs4.OK
		}
	}
	if len(c.opens) >= maxOpens || !s.hasQuota(c.group, stateIDs, stateIDCost(len(owner))) || f.isWrittenByOther(c) {
		return nil, nfs4.ErrDelay
	}
	o := s.newOpen(c, owner, key, "", sh)
	o.File, o.notifies = file, true
	o.key.file.machineOpens++
	o.addName(handle)
	s.holdings.put(o.index, &o.holding)
	return o, nfs4.OK
}

// maxNames bounds an Open's filehandles: an object has one in each export.
const maxNames = 8

// A namedObject is an object that a Machine has opened by a filehandle.
type namedObject struct {
	key   string
	opens int
}

// addName records a filehandle for the object of a Machine's Open.
func (o *Open) addName(handle []byte) {
	if len(o.names) >= maxNames || slices.Contains(o.names, string(handle)) {
		return
	}
	o.names = append(o.names, string(handle))
	c := o.client
	if c.namedObjects == nil {
		c.namedObjects = make(map[string]namedObject)
	}
	c.namedObjects[string(handle)] = namedObject{o.Key, c.namedObjects[string(handle)].opens + 1}
}

// dropNames removes the filehandles of an Open that is closed.
func (o *Open) dropNames() {
	c := o.client
	for _, handle := range o.names {
		n := c.namedObjects[handle]
		if n.opens--; n.opens == 0 {
			delete(c.namedObjects, handle)
			continue
		}
		c.namedObjects[handle] = n
	}
}

// MachineKey returns the Key of an object that a session's Machine has locked or shared by a
// filehandle. It also finds objects that were removed since.
func (s *State) MachineKey(session *Session, handle []byte) (key string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := session.client.namedObjects[string(handle)]
	return n.key, ok
}

// tidyMachine removes what a Machine no longer needs after a call for a lock-owner of an object:
// the owner's lockSet if it has no locks, and the Open if nothing is locked through it and no
// owner waits. State.mu is held.
func (s *State) tidyMachine(c *client, a *Lock, deferred *deferredWork) {
	f := s.fileOf(a.Key)
	if !c.isMachine() || f == nil {
		return
	}
	o := c.opens[openKey{owner: lockOpener, file: f}]
	if o == nil {
		return
	}
	if set := o.locks[f.owners[lockOwnerKey{c, string(a.Owner)}]]; set != nil && set.part.Len() == 0 {
		s.endLocks(set, deferred)
	}
	if len(o.locks) == 0 && len(o.waits) == 0 {
		s.closeOpen(o, deferred)
	}
}

// lockAndTidyMachine locks State.mu and calls tidyMachine.
func (s *State) lockAndTidyMachine(c *client, a *Lock, deferred *deferredWork) {
	if c.isMachine() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tidyMachine(c, a, deferred)
	}
}
