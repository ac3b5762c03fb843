package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// The kernel forgets nodes when the machine needs memory, not when this process
// does. If the kernel knows too many nodes, prune tells it to forget some, in no
// particular order, except nodes used since the last pass. Open nodes, and nodes
// otherwise in use in the kernel, stay there.

// isFull reports whether the kernel knows as many nodes as it may.
func (t *nodeTable) isFull() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.excessLocked() >= 0
}

// excessLocked returns the number of nodes by which the kernel exceeds the limit.
func (t *nodeTable) excessLocked() int { return len(t.nodes) - t.parked.Len() - t.capacity }

// pruneIfFullLocked starts prune if the kernel knows too many nodes.
func (t *nodeTable) pruneIfFullLocked() {
	m := t.m
	if t.pruning || t.excessLocked() <= 0 || time.Since(t.lastPruned) < prunePause {
		return
	}
	m.notifyMu.RLock()
	defer m.notifyMu.RUnlock()
	if !m.notifyClosed {
		t.pruning = true
		m.notifications.Go(m.prune)
	}
}

// prune makes the kernel forget nodes until the kernel knows an eighth less than it
// may, has been told to forget as many as exist, or has closed the connection.
func (m *Mount) prune() {
	t := m.table
	for asked, on := 0, true; ; {
		t.mu.Lock()
		excess := t.excessLocked() + t.capacity/8
		if !on || excess <= 0 || asked > len(t.nodes) {
			t.pruning, t.lastPruned = false, time.Now()
			t.mu.Unlock()
			return
		}
		some := t.unusedNodesLocked(min(excess, maxPrune))
		asked += max(len(some), len(t.nodes)/64)
		t.mu.Unlock()
		on = m.pruneNodes(some)
		time.Sleep(prunePoll) // the kernel reports forgotten nodes later
	}
}

// unusedNodesLocked returns some nodes that were not used since the last pass.
func (t *nodeTable) unusedNodesLocked(count int) (old []*node) {
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

// pruneNodes makes the kernel forget nodes. Linux before 6.18 has no such
// notification: there pruneNodes drops the names of all nodes except directories,
// which unmounts file systems on those names. It returns false if the kernel has
// closed the connection, or if something is mounted on the file system and the
// notification does not exist.
func (m *Mount) pruneNodes(some []*node) bool {
	ids := make([]uint64, 0, len(some))
	for _, n := range some {
		ids = append(ids, n.id)
		if isSpecial(typeBits[n.fileType()]) { // the kernel may know the node by either number
			ids = append(ids, n.id|substituteBit)
		}
	}
	switch m.server.PruneNotify(ids) {
	case fuse.OK:
	case fuse.ENOSYS:
		if m.hasSubmounts() {
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

// dropNames makes the kernel forget n's names. It skips directories, because
// anything below them may be in use.
func (m *Mount) dropNames(n *node) {
	if n.fileType() == nfs3.TypeDir {
		return
	}
	m.table.mu.RLock()
	places := append([]place(nil), n.places...)
	m.table.mu.RUnlock()
	for _, p := range places {
		_, _ = unix.Write(m.notifyFD, encodeEntryNote(p.dir.id, p.name, 0))
	}
}

// fileType returns n's file type.
func (n *node) fileType() nfs3.Type {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.attr.Type
}
