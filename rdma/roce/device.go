package roce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A Config configures a device. The zero value suits most callers.
type Config struct {
	// PKey is the device's partition; 0 means the default partition, 0xffff,
	// which every Ethernet peer has.
	PKey uint16

	// Controlled lets queue pairs have Q_Keys with the high bit set. Such keys
	// are for privileged users, so that no one else can send in their name.
	Controlled bool
}

// A Device has a wire as its only port, and queue pairs, protection domains and
// regions that use it.
type Device struct {
	wire      Wire
	cfg       Config
	counters  deviceCounters
	check     packet.Check  // for received packets; Wire delivers them one at a time
	in        packet.Packet // the packet being processed
	serveDone chan struct{}
	err       error // why the wire ended; valid once serveDone is closed

	mu      sync.RWMutex
	closed  bool
	pairs   map[uint32]endpoint
	regions map[rdma.STag]*Region
	groups  map[netip.Addr][]*UD
}

// An endpoint is the device's view of a queue pair.
type endpoint interface {
	// receivePacket receives a packet for the queue pair, whose BTH was parsed.
	// It returns the drop cause, or notDropped.
	receivePacket(d *Datagram, p *packet.Packet, rest []byte) Drop
	enterError(cause error)
}

// Open returns a device for a wire and starts receiving. The device owns the
// wire.
func Open(w Wire, cfg Config) *Device {
	if cfg.PKey == 0 {
		cfg.PKey = defaultPKey
	}
	d := &Device{
		wire: w, cfg: cfg, serveDone: make(chan struct{}),
		pairs: map[uint32]endpoint{}, regions: map[rdma.STag]*Region{}, groups: map[netip.Addr][]*UD{},
	}
	go func() {
		defer close(d.serveDone)
		d.err = w.Serve(d.deliverDatagrams)
		d.failAll(fmt.Errorf("roce: the wire has ended: %w", d.err))
	}()
	return d
}

// Addr returns the address of the device's port.
func (d *Device) Addr() netip.Addr { return d.wire.Addr() }

// MaxPMTU returns the maximum path MTU of the device's port, in bytes, which is
// the maximum UD datagram length.
func (d *Device) MaxPMTU() int { return maxPMTU(d.wire) }

// Stats returns the device's counters.
func (d *Device) Stats() Statistics { return d.counters.snapshot() }

// Close closes the wire and all queue pairs, whose work completes as flushed.
// When Close returns, no device goroutine is running. It may be called twice,
// but not by a Completer.
func (d *Device) Close() error {
	err := d.wire.Close()
	<-d.serveDone
	return err
}

// failAll moves all queue pairs to Error and prevents new ones.
func (d *Device) failAll(cause error) {
	d.mu.Lock()
	d.closed = true
	var all []endpoint
	for _, e := range d.pairs {
		all = append(all, e)
	}
	d.mu.Unlock()
	for _, e := range all {
		e.enterError(cause)
	}
}

// addQueuePair gives a queue pair the wanted number or, if wanted is 0, a number that cannot be
// guessed from another queue pair's.
func (d *Device) addQueuePair(e endpoint, wanted uint32) (number uint32, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return 0, rdma.ErrClosed
	case wanted != 0 && (wanted < firstQP || wanted >= packet.MulticastQP || d.pairs[wanted] != nil):
		return 0, fmt.Errorf("roce: %#x is no number of a queue pair, or another has it", wanted)
	case len(d.pairs) >= maxQueuePairs:
		return 0, fmt.Errorf("%w: %d queue pairs", errTooMany, len(d.pairs))
	}
	number = wanted
	for number < firstQP || d.pairs[number] != nil {
		number = rand.Uint32N(packet.MulticastQP)
	}
	d.pairs[number] = e
	return number, nil
}

func (d *Device) removeQueuePair(number uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pairs, number)
}

// findRegion returns the region for an R_Key, or nil.
func (d *Device) findRegion(key uint32) *Region {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.regions[rdma.STag(key)]
}

// deliverDatagrams processes received datagrams.
func (d *Device) deliverDatagrams(in []Datagram) {
	d.counters.received.packets.Add(uint64(len(in)))
	for i := range in {
		if cause := d.receiveDatagram(&in[i]); cause != notDropped {
			d.counters.countDrop(cause)
		}
	}
}

// receiveDatagram makes the checks that section 9.6 requires for every packet, up to the BTH, and
// passes the packet to its queue pair.
func (d *Device) receiveDatagram(in *Datagram) Drop {
	b := in.Bytes
	if len(b) < packet.BTHLen+packet.ICRCLen || len(b)%4 != 0 {
		return dropLength
	}
	if !d.hasValidICRC(in) {
		return dropICRC
	}
	p := &d.in
	*p = packet.Packet{}
	var rest []byte
	p.BTH, rest, _ = packet.ParseBTH(b[:len(b)-packet.ICRCLen]) // long enough
	if p.Version != 0 {
		return dropVersion
	}
	if p.DestQP == packet.MulticastQP {
		return d.receiveGroup(in, p, rest)
	}
	d.mu.RLock()
	e := d.pairs[p.DestQP]
	d.mu.RUnlock()
	if e == nil || in.Dst.Multicast() {
		return dropDestQP
	}
	return e.receivePacket(in, p, rest)
}

// hasValidICRC reports whether the ICRC is correct.
func (d *Device) hasValidICRC(in *Datagram) bool {
	if in.Unseen && in.Dst.Is4() {
		return d.check.Solve(&in.Network, in.Bytes)
	}
	return d.check.Valid(&in.Network, in.Bytes)
}

// samePartition reports whether members of one partition may receive packets
// from another: the same partition, and not both with limited membership
// (section 10.9.3).
func samePartition(a, b uint16) bool {
	const full = 0x8000
	return a&^full == b&^full && (a|b)&full != 0
}

var errState = errors.New("roce: the state of the queue pair does not allow this")
