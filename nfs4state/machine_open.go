package nfs4state

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// The open-owners of a Machine. By the Open of its locks, a Machine locks an object,
// which it need not open; the other Opens are SHAREs.
const (
	lockOpener  = "L"
	shareOpener = "S" // and oh
)

// openFor returns the Open of an object for a Machine, made without modes if there is
// none. State.mu is held.
func (s *State) openFor(c *client, owner, key string, handle []byte, file any) (*Open, nfs4.Status) {
	if c.ended {
		return nil, nfs4.ErrBadSession
	}
	f := s.files[key]
	if f != nil {
		if o := c.opens[openKey{owner: owner, file: f}]; o != nil {
			o.addName(handle)
			return o, nfs4.OK
		}
	}
	if len(c.opens) >= maxOpens || !s.mayUse(c.party, stateids, costOf(len(owner))) || s.writtenByOther(key, c) {
		return nil, nfs4.ErrDelay
	}
	o := s.newOpen(c, owner, key, "")
	o.File, o.notifies = file, true
	o.key.file.machines++
	o.addName(handle)
	s.slab.put(o.index, &o.holding)
	return o, nfs4.OK
}

// maxNames bounds the filehandles that are remembered of an Open: an object has one in each
// export.
const maxNames = 8

// A named is an object that Opens of a Machine name by a filehandle.
type named struct {
	key   string
	opens int
}

// addName notes a filehandle of the object of an Open of a Machine.
func (o *Open) addName(handle []byte) {
	if len(o.names) >= maxNames || slices.Contains(o.names, string(handle)) {
		return
	}
	o.names = append(o.names, string(handle))
	c := o.client
	if c.named == nil {
		c.named = make(map[string]named)
	}
	c.named[string(handle)] = named{o.Key, c.named[string(handle)].opens + 1}
}

// dropNames forgets the filehandles of an Open that ends.
func (o *Open) dropNames() {
	c := o.client
	for _, handle := range o.names {
		n := c.named[handle]
		if n.opens--; n.opens == 0 {
			delete(c.named, handle)
			continue
		}
		c.named[handle] = n
	}
}

// KeyOf returns the Key of an object that a session's Machine has locked or shared by a
// filehandle. It finds objects that have been removed since.
func (s *State) KeyOf(session *Session, handle []byte) (key string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := session.client.named[string(handle)]
	return n.key, ok
}

// tidy ends the Opens of an object that a Machine has no use for any more: nothing
// is locked through them, nobody waits, and they are no SHAREs. State.mu is held.
func (s *State) tidy(c *client, key string, gone *released) {
	f := s.files[key]
	if !c.managed() || f == nil {
		return
	}
	o := c.opens[openKey{owner: lockOpener, file: f}]
	if o == nil {
		return
	}
	for _, set := range o.locks {
		if set.part.Len() == 0 {
			s.endLocks(set, gone)
		}
	}
	if len(o.locks) == 0 && !slices.ContainsFunc(f.waiting, func(w *Waiting) bool { return w.open == o }) {
		s.closeOpen(o, gone)
	}
}

// tidyAfter is tidy, with State.mu not held.
func (s *State) tidyAfter(c *client, key string, gone *released) {
	if c.managed() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tidy(c, key, gone)
	}
}
