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

// counters are the delegation counters of one connection, at their responder: a
// mapping of its own, for it takes no memory but where it is used, and a peer that
// counts must not keep the collector's pages busy.
type counters struct {
	memory []byte
	region rdma.Region
	room   *fairshare.Part // which the memory is of
}

// mapped is how many octets there are in the mappings of all connections.
var mapped atomic.Int64

// errNoWords: a peer cannot have counters beside those that it has.
var errNoWords = errors.New("rpcrdma: the counters of the peer's other connections take all that its address may have")

// makeCounters maps n words, for which there must be room, and registers them for the
// connection alone, for nothing but atomic operations.
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

// giveBack ends what the counters of a connection are used for, if it has any.
func (l *ExtensionConn) giveBack() {
	l.mu.Lock()
	c := l.counters
	l.counters = counters{}
	l.mu.Unlock()
	c.free()
}

// free ends the peer's access and gives the memory back, if there is any.
func (c counters) free() {
	if c.region != nil {
		c.region.Deregister()
	}
	if c.memory != nil {
		mapped.Add(-int64(len(c.memory)))
		c.room.Release(int64(len(c.memory)))
		_ = unix.Munmap(c.memory) // it is what Mmap returned
	}
}

// count makes the counters of a connection that is being accepted, and says so in
// the block; or takes the offer back.
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
// bits in the processor's byte order, zero at first. The requester changes them at
// any time, by atomic operations, so they are to be used by rdma.Word alone. It is
// nil at a requester, and where they are off.
//
// It is valid until ExtensionHandler.Closed has returned: whoever still uses it then
// makes the process fault.
func (l *ExtensionConn) Counters() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counters.memory
}

// Counter returns where a requester finds word n of the responder's delegation
// counters. Of those there are Peer().CounterSlots; beyond them, or where they are
// off, the place is none that may be used.
func (l *ExtensionConn) Counter(n uint32) rdma.Remote {
	return rdma.Remote{STag: rdma.STag(l.peer.CounterSTag), TO: l.peer.CounterTO + uint64(n)*rdma.WordLen}
}

// counts tells whether what a responder says of its counters can be.
func (l *ExtensionConn) counts() bool {
	n := l.peer.CounterSlots
	return n >= minCounters && n <= maxCounters && l.peer.CounterTO <= math.MaxUint64-uint64(n)*rdma.WordLen
}
