package roce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A Config configures a device. The zero value is right.
type Config struct {
	// PKey is the device's partition; 0 means the default partition, 0xffff,
	// which every Ethernet peer has.
	PKey uint16

	// Controlled lets queue pairs have Q_Keys with the high bit set. Such keys
	// are for privileged users, so that nobody else can send in their name.
	Controlled bool
}

// A Device has a wire as its one port, and queue pairs, protection domains and
// regions behind it.
type Device struct {
	wire     Wire
	cfg      Config
	counters counters
	check    packet.Check  // of received packets; Wire delivers them one at a time
	in       packet.Packet // the packet under examination
	served   chan struct{}
	err      error // the cause of the wire's end; valid when served is closed

	mu      sync.RWMutex
	closed  bool
	pairs   map[uint32]endpoint
	regions map[rdma.STag]*Region
	groups  map[netip.Addr][]*UD
}

// An endpoint is the device's view of a queue pair.
type endpoint interface {
	// receive takes a packet for the queue pair, whose BTH was read, and
	// returns why it was dropped, if it was.
	receive(d *Datagram, p *packet.Packet, rest []byte) Drop
	fail(cause error)
}

// Open makes a device of a wire and starts to receive. The device owns the wire
// from then on.
func Open(w Wire, cfg Config) *Device {
	if cfg.PKey == 0 {
		cfg.PKey = defaultPKey
	}
	d := &Device{
		wire: w, cfg: cfg, served: make(chan struct{}),
		pairs: map[uint32]endpoint{}, regions: map[rdma.STag]*Region{}, groups: map[netip.Addr][]*UD{},
	}
	go func() {
		defer close(d.served)
		d.err = w.Serve(d.deliver)
		d.failAll(fmt.Errorf("roce: the wire has ended: %w", d.err))
	}()
	return d
}

// Addr returns the address of the device's port.
func (d *Device) Addr() netip.Addr { return d.wire.Addr() }

// MaxPMTU returns the largest path MTU of the device's port, in bytes: the
// longest datagram of UD.
func (d *Device) MaxPMTU() int { return MaxPMTU(d.wire) }

// Stats returns the device's counters.
func (d *Device) Stats() Statistics { return d.counters.read() }

// Close ends the wire and all queue pairs, whose work completes as flushed.
// When Close returns, no goroutine of the device runs. It may be called twice,
// but not by a Completer.
func (d *Device) Close() error {
	err := d.wire.Close()
	<-d.served
	return err
}

// failAll ends the queue pairs and prevents new ones.
func (d *Device) failAll(cause error) {
	d.mu.Lock()
	d.closed = true
	var all []endpoint
	for _, e := range d.pairs {
		all = append(all, e)
	}
	d.mu.Unlock()
	for _, e := range all {
		e.fail(cause)
	}
}

// add gives a queue pair the wanted number or, if wanted is 0, a number that
// nobody can guess from another queue pair's.
func (d *Device) add(e endpoint, wanted uint32) (number uint32, err error) {
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

func (d *Device) remove(number uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pairs, number)
}

// region returns the region of an R_Key, or nil.
func (d *Device) region(key uint32) *Region {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.regions[rdma.STag(key)]
}

// deliver takes received datagrams.
func (d *Device) deliver(in []Datagram) {
	d.counters.received.packets.Add(uint64(len(in)))
	for i := range in {
		if cause := d.receive(&in[i]); cause != taken {
			d.counters.drop(cause)
		}
	}
}

// receive makes the checks that section 9.6 requires of every packet, as far as
// the BTH, and passes the packet to its queue pair.
func (d *Device) receive(in *Datagram) Drop {
	b := in.Bytes
	if len(b) < packet.BTHLen+packet.ICRCLen || len(b)%4 != 0 {
		return DropLength
	}
	if !d.intact(in) {
		return DropICRC
	}
	p := &d.in
	*p = packet.Packet{}
	var rest []byte
	p.BTH, rest, _ = packet.ParseBTH(b[:len(b)-packet.ICRCLen]) // long enough
	if p.Version != 0 {
		return DropVersion
	}
	if p.DestQP == packet.MulticastQP {
		return d.receiveGroup(in, p, rest)
	}
	d.mu.RLock()
	e := d.pairs[p.DestQP]
	d.mu.RUnlock()
	if e == nil || in.Dst.Multicast() {
		return DropDestQP
	}
	return e.receive(in, p, rest)
}

// intact checks the ICRC.
func (d *Device) intact(in *Datagram) bool {
	if in.Unseen && in.Dst.Is4() {
		return d.check.Solve(&in.Network, in.Bytes)
	}
	return d.check.Valid(&in.Network, in.Bytes)
}

// samePartition reports whether members of one partition may receive packets of
// another: the same partition, and not both with limited membership (section
// 10.9.3).
func samePartition(a, b uint16) bool {
	const full = 0x8000
	return a&^full == b&^full && (a|b)&full != 0
}

var errState = errors.New("roce: the state of the queue pair does not allow this")
