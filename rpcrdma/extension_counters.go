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

// counters are the delegation counters of one connection, at their responder.
// They are a mapping of their own: only pages in use take memory, and a peer
// that counts does not keep pages of the Go heap busy.
type counters struct {
	memory []byte
	region rdma.Region
	room   *fairshare.Part // the share that the memory is charged to
}

// mapped is the number of bytes in the mappings of all connections.
var mapped atomic.Int64

// errNoWords means that a party cannot have more counters than it has.
var errNoWords = errors.New("rpcrdma: the counters of the peer's other connections use up its address's limit")

// makeCounters maps n words, charges them to room, and registers them for this
// connection alone and for atomic operations only.
func makeCounters(conn rdma.Registrar, n int, room *fairshare.Part) (c counters, err error) {
	size := n * rdma.WordLen
	if !room.TryAcquire(int64(size)) {
		return counters{}, errNoWords
	}
	c.memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		room.Release(int64(size))
		return counters{}, fmt.Errorf("rpcrdma: mmap: %w", err)
	}
	c.room = room
	mapped.Add(int64(len(c.memory)))
	_ = unix.Madvise(c.memory, unix.MADV_NOHUGEPAGE) // one word would take 2 MiB; a kernel without them refuses
	if c.region, err = conn.Register(c.memory, rdma.RemoteAtomic); err != nil {
		c.free()
		return counters{}, err
	}
	return c, nil
}

// giveBack frees the counters of a connection, if it has any.
func (l *ExtensionConn) giveBack() {
	l.mu.Lock()
	c := l.counters
	l.counters = counters{}
	l.mu.Unlock()
	c.free()
}

// free ends the peer's access and releases the memory, if there is any.
func (c counters) free() {
	if c.region != nil {
		c.region.Deregister()
	}
	if c.memory != nil {
		mapped.Add(-int64(len(c.memory)))
		c.room.Release(int64(len(c.memory)))
		_ = unix.Munmap(c.memory) // cannot fail: Mmap returned this memory
	}
}

// count makes the counters of a connection that is being accepted, and
// advertises them in the block. If that fails, it withdraws the offer.
func (l *ExtensionConn) count(conn rdma.Registrar, room *fairshare.Part) error {
	c, err := makeCounters(conn, l.cfg.Counters, room)
	if err != nil {
		l.block.Delegation = false
		return err
	}
	l.counters = c
	l.block.CounterSTag, l.block.CounterTO = uint32(c.region.STag()), c.region.TO()
	l.block.CounterSlots = uint32(l.cfg.Counters)
	return nil
}

// Counters returns the memory of a responder's delegation counters: words of 64
// bits in the processor's byte order, initially zero. The requester changes
// them at any time, by atomic operations, so they must be accessed only through
// rdma.Word. Counters returns nil at a requester, and if delegation counters
// are off.
//
// The memory is valid until ExtensionHandler.Closed has returned; a later
// access makes the process fault.
func (l *ExtensionConn) Counters() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counters.memory
}

// Counter returns the address of word n of the responder's delegation counters,
// for a requester. n must be below Peer().CounterSlots, and delegation counters
// must be on; otherwise the address must not be used.
func (l *ExtensionConn) Counter(n uint32) rdma.Remote {
	return rdma.Remote{STag: rdma.STag(l.peer.CounterSTag), TO: l.peer.CounterTO + uint64(n)*rdma.WordLen}
}

// counts reports whether a responder's description of its counters is
// plausible.
func (l *ExtensionConn) counts() bool {
	n := l.peer.CounterSlots
	return n >= minCounters && n <= maxCounters && l.peer.CounterTO <= math.MaxUint64-uint64(n)*rdma.WordLen
}
