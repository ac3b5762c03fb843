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

// A Config says how a device is. The zero value is right.
type Config struct {
	// PKey is the partition that the device belongs to; 0 means the default
	// one, 0xffff, which every Ethernet peer has.
	PKey uint16

	// Controlled lets queue pairs have Q_Keys with the high bit set. Those
	// are for the privileged: others are not to be able to speak in their
	// name.
	Controlled bool
}

// A Device has a wire as its one port, and queue pairs, protection domains and
// regions behind it.
type Device struct {
	wire     Wire
	cfg      Config
	counters counters
	check    packet.Check  // of what comes in, which Wire does one at a time
	in       packet.Packet // the one that is looked at
	served   chan struct{}
	err      error // why the wire has ended; valid when served is closed

	mu      sync.RWMutex
	closed  bool
	pairs   map[uint32]endpoint
	regions map[rdma.STag]*Region
	groups  map[netip.Addr][]*UD
}

// An endpoint is a queue pair, as the device sees it.
type endpoint interface {
	// receive takes a packet that is for the queue pair, whose BTH was read,
	// and returns why it was dropped, if it was.
	receive(d *Datagram, p *packet.Packet, rest []byte) Drop
	fail(cause error)
}

// Open makes a device of a wire, which is the device's from now on, and begins
// to receive.
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

// Stats returns what the device has done.
func (d *Device) Stats() Statistics { return d.counters.read() }

// Close ends all queue pairs, whose work completes as flushed, and the wire. When
// it returns, nothing of the device runs. It may be called twice, and not by a
// Completer.
func (d *Device) Close() error {
	err := d.wire.Close()
	<-d.served
	return err
}

// failAll ends the queue pairs and lets no new one be.
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

// add gives a queue pair the number that it is to have, or, where that is 0, one
// that nobody can guess from another's.
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

// deliver takes what has come in.
func (d *Device) deliver(in []Datagram) {
	d.counters.received.packets.Add(uint64(len(in)))
	for i := range in {
		if cause := d.receive(&in[i]); cause != taken {
			d.counters.drop(cause)
		}
	}
}

// receive checks what section 9.6 asks of every packet, as far as the BTH goes,
// and hands it to its queue pair.
func (d *Device) receive(in *Datagram) Drop {
	b := in.Octets
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
		return d.check.Solve(&in.Network, in.Octets)
	}
	return d.check.Valid(&in.Network, in.Octets)
}

// samePartition reports whether packets of a partition are for members of
// another: the same, and not both with limited membership (section 10.9.3).
func samePartition(a, b uint16) bool {
	const full = 0x8000
	return a&^full == b&^full && (a|b)&full != 0
}

var errState = errors.New("roce: the queue pair is not in a state for that")
