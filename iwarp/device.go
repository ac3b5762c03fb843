package iwarp

import (
	"crypto/rand"
	"encoding/binary"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// stagShards is the number of tables, each with its own lock, that STags are
// spread over.
const stagShards = 16

// A device is the RNIC. It owns the STags of all connections, so that an STag
// is unique, and an STag used on the wrong connection is distinguished from an
// unknown STag.
type device struct {
	shard      [stagShards]stagTable
	conns      connTable
	terminates struct{ sent, received tally }
}

type stagTable struct {
	mu     sync.RWMutex
	m      map[rdma.STag]*region
	octets uint64 // total size of the regions in bytes
}

// rnic is the device of the process.
var rnic = newDevice()

func newDevice() *device {
	d := &device{conns: connTable{running: make(map[*Conn]struct{})}}
	for i := range d.shard {
		d.shard[i].m = make(map[rdma.STag]*region)
	}
	return d
}

// draw returns a number that peers cannot predict (RFC 5042, Section 8.1.1).
func draw() uint32 {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:])
}

func (d *device) table(s rdma.STag) *stagTable { return &d.shard[s%stagShards] }

// add gives r an STag and makes it known.
func (d *device) add(r *region) {
	for {
		r.stag = rdma.STag(draw())
		if r.stag == 0 { // zero-length operations carry 0
			continue
		}
		t := d.table(r.stag)
		t.mu.Lock()
		if _, used := t.m[r.stag]; !used {
			t.m[r.stag] = r
			t.octets += uint64(r.size)
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
	}
}

func (d *device) find(s rdma.STag) *region {
	t := d.table(s)
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.m[s]
}

func (d *device) remove(r *region) {
	t := d.table(r.stag)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[r.stag] == r {
		delete(t.m, r.stag)
		t.octets -= uint64(r.size)
	}
}
