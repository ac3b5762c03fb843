package iwarp

import (
	"crypto/rand"
	"encoding/binary"
	"net"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// stagShards is the number of STag tables, each with its own lock.
const stagShards = 16

// A Device is a software RNIC. Its connections share one configuration, STags
// and counts. It needs no Close: a device without listeners and connections
// holds no resources. It implements rdma.Dialer.
type Device struct {
	cfg    Config
	domain *ProtectionDomain // domain that new connections join, or nil
	*rnic
}

var _ rdma.Dialer = (*Device)(nil)

// Open returns a new device.
func Open(cfg Config) *Device {
	r := &rnic{conns: connTable{running: make(map[*Conn]struct{})}}
	for i := range r.shards {
		r.shards[i].m = make(map[rdma.STag]*region)
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

// Conns returns the running connections.
func (d *Device) Conns() []*Conn { return d.conns.runningConns() }

// An rnic is a device's state. It owns the STags for all connections, so that
// STags are unique, and an STag used on the wrong connection is distinguished
// from an unknown one.
type rnic struct {
	shards     [stagShards]stagTable
	conns      connTable
	terminates struct{ sent, received terminateCounts }
}

type stagTable struct {
	mu    sync.RWMutex
	m     map[rdma.STag]*region
	bytes uint64 // total region size
}

// randomUint32 returns a number that peers cannot predict (RFC 5042, Section 8.1.1).
func randomUint32() uint32 {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:])
}

func (n *rnic) shardFor(s rdma.STag) *stagTable { return &n.shards[s%stagShards] }

// addRegion assigns r an unused STag and registers it.
func (n *rnic) addRegion(r *region) {
	for {
		r.stag = rdma.STag(randomUint32())
		if r.stag == 0 { // zero-length operations carry 0
			continue
		}
		t := n.shardFor(r.stag)
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

func (n *rnic) findRegion(s rdma.STag) *region {
	t := n.shardFor(s)
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.m[s]
}

func (n *rnic) removeRegion(r *region) {
	t := n.shardFor(r.stag)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[r.stag] == r {
		delete(t.m, r.stag)
		t.bytes -= uint64(r.size)
	}
}
