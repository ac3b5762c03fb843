package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// The kernel forgets nodes when the machine wants memory, not when this process
// does. If the kernel knows too many nodes, prune tells it to forget some: in
// no order, except nodes used since the last pass. Open nodes, and nodes
// otherwise in use in the kernel, stay there.

// full reports whether the kernel knows as many nodes as it may.
func (t *table) full() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.excessLocked() >= 0
}

// excessLocked returns how many nodes too many the kernel knows.
func (t *table) excessLocked() int { return len(t.nodes) - t.parked.Len() - t.room }

// addedLocked starts prune if the kernel knows too many nodes.
func (t *table) addedLocked() {
	m := t.m
	if t.pruning || t.excessLocked() <= 0 || time.Since(t.pruned) < prunePause {
		return
	}
	m.noting.RLock()
	defer m.noting.RUnlock()
	if !m.noted {
		t.pruning = true
		m.notes.Go(m.prune)
	}
}

// prune makes the kernel forget nodes until the kernel knows an eighth less
// than it may, has been asked to forget as many as exist, or is gone.
func (m *Mount) prune() {
	t := m.table
	for asked, on := 0, true; ; {
		t.mu.Lock()
		excess := t.excessLocked() + t.room/8
		if !on || excess <= 0 || asked > len(t.nodes) {
			t.pruning, t.pruned = false, time.Now()
			t.mu.Unlock()
			return
		}
		some := t.oldLocked(min(excess, maxPrune))
		asked += max(len(some), len(t.nodes)/64)
		t.mu.Unlock()
		on = m.pruneNodes(some)
		time.Sleep(prunePoll) // the kernel reports forgotten nodes later
	}
}

// oldLocked returns some nodes that were not used since the last pass.
func (t *table) oldLocked(count int) (old []*node) {
	for id, n := range t.nodes {
		if id == fuse.FUSE_ROOT_ID || n.parked != nil || n.opens > 0 || n.used.Swap(false) {
			continue
		}
		if old = append(old, n); len(old) == count {
			break
		}
	}
	return old
}

// pruneNodes makes the kernel forget nodes. Linux before 6.18 has no such note:
// there pruneNodes drops the names of all nodes except directories, which
// undoes mounts on those names. It returns false if the kernel has gone, or if
// something is mounted on the file system and the note does not exist.
func (m *Mount) pruneNodes(some []*node) bool {
	ids := make([]uint64, 0, len(some))
	for _, n := range some {
		ids = append(ids, n.id)
		if isSpecial(typeBits[n.typ()]) { // the kernel may know the node by either number
			ids = append(ids, n.id|shutBit)
		}
	}
	switch m.server.PruneNotify(ids) {
	case fuse.OK:
	case fuse.ENOSYS:
		if m.covered() {
			return false
		}
		for _, n := range some {
			m.dropNames(n)
		}
	default:
		return false
	}
	return true
}

// dropNames makes the kernel forget the names of n. It leaves directories
// alone, because anything below them may be in use.
func (m *Mount) dropNames(n *node) {
	if n.typ() == nfs3.TypeDir {
		return
	}
	m.table.mu.RLock()
	places := append([]place(nil), n.places...)
	m.table.mu.RUnlock()
	for _, p := range places {
		_, _ = unix.Write(m.notifyFD, entryNote(p.dir.id, p.name, 0))
	}
}

// typ returns n's file type.
func (n *node) typ() nfs3.Type {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.attr.Type
}
