package iwarp

import (
	"crypto/rand"
	"encoding/binary"
	"net"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// stagShards is the number of tables, each with its own lock, that STags are
// spread over.
const stagShards = 16

// A Device is a software RNIC. It makes connections with one configuration, and
// has its own STags and counts. It needs no Close: a device without listeners
// and connections holds nothing. It implements rdma.Dialer.
type Device struct {
	cfg    Config
	domain *ProtectionDomain // which new connections join, or nil
	*rnic
}

var _ rdma.Dialer = (*Device)(nil)

// Open makes a device.
func Open(cfg Config) *Device {
	r := &rnic{conns: connTable{running: make(map[*Conn]struct{})}}
	for i := range r.shard {
		r.shard[i].m = make(map[rdma.STag]*region)
	}
	return &Device{cfg: cfg, rnic: r}
}

// Listen listens on a TCP address. The network is tcp, tcp4 or tcp6. iWARP
// peers without a port mapper, such as Linux's siw, connect to the TCP port.
func (d *Device) Listen(network, addr string) (*Listener, error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, err
	}
	return d.NewListener(l), nil
}

// Conns returns the connections that are running now.
func (d *Device) Conns() []*Conn { return d.conns.all() }

// An rnic is the state of a device. It owns the STags of all connections, so
// that an STag is unique, and an STag used on the wrong connection is
// distinguished from an unknown STag.
type rnic struct {
	shard      [stagShards]stagTable
	conns      connTable
	terminates struct{ sent, received tally }
}

type stagTable struct {
	mu    sync.RWMutex
	m     map[rdma.STag]*region
	bytes uint64 // total size of the regions in bytes
}

// draw returns a number that peers cannot predict (RFC 5042, Section 8.1.1).
func draw() uint32 {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:])
}

func (n *rnic) table(s rdma.STag) *stagTable { return &n.shard[s%stagShards] }

// add gives r an STag and makes it known.
func (n *rnic) add(r *region) {
	for {
		r.stag = rdma.STag(draw())
		if r.stag == 0 { // zero-length operations carry 0
			continue
		}
		t := n.table(r.stag)
		t.mu.Lock()
		if _, used := t.m[r.stag]; !used {
			t.m[r.stag] = r
			t.bytes += uint64(r.size)
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
	}
}

func (n *rnic) find(s rdma.STag) *region {
	t := n.table(s)
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.m[s]
}

func (n *rnic) remove(r *region) {
	t := n.table(r.stag)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[r.stag] == r {
		delete(t.m, r.stag)
		t.bytes -= uint64(r.size)
	}
}
