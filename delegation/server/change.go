package server

import (
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// BeginChange announces a change to the grants (recall.HolderSet). The change
// arrived on the connection of by.Conn, an *oncrpc.Peer, whose grants are kept
// unless they have a file system lease. If BeginChange returns true, the object
// has no file system lease any more.
func (k *Keeper) BeginChange(ch *recall.Change, by recall.Changer, key []byte) bool {
	rec, ok := ch.Record.(*delegation.Change)
	if !ok {
		rec = &delegation.Change{Waker: ch}
		ch.Record = rec
	}
	p, _ := by.Conn.(*oncrpc.Peer)
	return k.beginChange(rec, k.connOf(p), key)
}

func (k *Keeper) beginChange(ch *delegation.Change, conn *delegation.Conn, key []byte) bool {
	ready, fx := k.grantor.Change(ch, conn, key, k.currentTime())
	k.applyEffects(fx)
	if ready {
		k.leases.releaseForKey(key)
	}
	return ready
}

// Waits reports whether a change waits for grants (recall.HolderSet).
func (k *Keeper) Waits(ch *recall.Change) bool {
	return k.grantor.Waits(ch.Record.(*delegation.Change))
}

// EndChange ends a change (recall.HolderSet). The objects for which a postponed
// change waited are not granted for one lease time.
func (k *Keeper) EndChange(ch *recall.Change, isPostponed bool) {
	rec := ch.Record.(*delegation.Change)
	if isPostponed {
		k.grantor.Postpone(rec, k.currentTime())
		k.wakeRun()
		return
	}
	k.grantor.Done(rec)
}

// Holds reports whether an object has grants, ACQUIREs, or a file system lease
// (recall.HolderSet).
func (k *Keeper) Holds(key []byte) bool { return k.grantor.Holds(key) || k.leases.contains(key) }

// A waker is woken when its change no longer waits for grants.
type waker interface{ Wake() }

// A localChange is a change by a process on this host, which waits until no
// grants are left, however long that takes.
type localChange struct {
	change delegation.Change
	woken  chan struct{}
}

func newLocalChange() *localChange {
	ch := &localChange{woken: make(chan struct{}, 1)}
	ch.change.Waker = ch
	return ch
}

func (ch *localChange) Wake() {
	select {
	case ch.woken <- struct{}{}:
	default: // it is awake already
	}
}
