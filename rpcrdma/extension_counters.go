package rpcrdma

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma"
	"golang.org/x/sys/unix"
)

// counters are one connection's delegation counters, at the responder. They
// have their own mapping: only pages in use occupy memory, and a counting peer
// does not touch the Go heap.
type counters struct {
	memory  []byte
	region  rdma.Region
	charged *fairshare.Part // share to which the memory is charged
}

// mappedBytes is the total size of all connections' mappings, in bytes.
var mappedBytes atomic.Int64

// errNoWords means that a party cannot have any more counters.
var errNoWords = errors.New("rpcrdma: the counters of the peer's other connections use up its address's limit")

// makeCounters maps n words, charges them to budget, and registers them for this
// connection and for atomic operations only.
func makeCounters(conn rdma.Registrar, n int, budget *fairshare.Part) (c counters, err error) {
	size := n * rdma.WordLen
	if !budget.TryAcquire(int64(size)) {
		return counters{}, errNoWords
	}
	c.memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		budget.Release(int64(size))
		return counters{}, fmt.Errorf("rpcrdma: mmap: %w", err)
	}
	c.charged = budget
	mappedBytes.Add(int64(len(c.memory)))
	_ = unix.Madvise(c.memory, unix.MADV_NOHUGEPAGE) // one word would occupy 2 MiB; fails on a kernel without huge pages
	if c.region, err = conn.Register(c.memory, rdma.RemoteAtomic); err != nil {
		c.release()
		return counters{}, err
	}
	return c, nil
}

// freeCounters frees a connection's counters, if it has any.
func (l *ExtensionConn) freeCounters() {
	l.mu.Lock()
	c := l.counters
	l.counters = counters{}
	l.mu.Unlock()
	c.release()
}

// release revokes the peer's access and frees the memory, if there is any.
func (c counters) release() {
	if c.region != nil {
		c.region.Deregister()
	}
	if c.memory != nil {
		mappedBytes.Add(-int64(len(c.memory)))
		c.charged.Release(int64(len(c.memory)))
		_ = unix.Munmap(c.memory) // cannot fail: the memory is from Mmap
	}
}

// addCounters creates the counters for a connection that is being accepted, and
// advertises them in the block. If that fails, it withdraws the offer.
func (l *ExtensionConn) addCounters(conn rdma.Registrar, budget *fairshare.Part) error {
	c, err := makeCounters(conn, l.cfg.Counters, budget)
	if err != nil {
		l.block.Delegation = false
		return err
	}
	l.counters = c
	l.block.CounterSTag, l.block.CounterTO = uint32(c.region.STag()), c.region.TO()
	l.block.CounterSlots = uint32(l.cfg.Counters)
	return nil
}

// Counters returns the memory for a responder's delegation counters: 64-bit
// words in the processor's byte order, initially zero. The requester may change
// them at any time, by atomic operations, so they must be accessed only through
// rdma.Word. Counters returns nil at a requester, and if delegation counters
// are disabled.
//
// The memory is valid until ExtensionHandler.Closed has returned; a later
// access faults.
func (l *ExtensionConn) Counters() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counters.memory
}

// Counter returns the address of word n in the responder's delegation counters,
// for a requester. n must be below Peer().CounterSlots, and delegation counters
// must be enabled; otherwise the address must not be used.
func (l *ExtensionConn) Counter(n uint32) rdma.Remote {
	return rdma.Remote{STag: rdma.STag(l.peer.CounterSTag), TO: l.peer.CounterTO + uint64(n)*rdma.WordLen}
}

// hasPlausibleCounters reports whether a responder's description of its counters is
// plausible.
func (l *ExtensionConn) hasPlausibleCounters() bool {
	n := l.peer.CounterSlots
	return n >= minCounters && n <= maxCounters && l.peer.CounterTO <= math.MaxUint64-uint64(n)*rdma.WordLen
}
