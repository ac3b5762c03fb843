package roce

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// Join lets the queue pair receive messages that are sent to a multicast group
// with its Q_Key, including messages from this end. Join may be called twice.
func (q *UD) Join(group netip.Addr) error {
	a := Address{Addr: group.Unmap()}
	d := q.dev
	if err := a.checkReachable(d.wire); err != nil {
		return err
	}
	if !a.Addr.IsMulticast() {
		return fmt.Errorf("%w: %v is no group", errAddress, group)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	members := d.groups[a.Addr]
	if slices.Contains(members, q) {
		return nil
	}
	if len(members) == 0 {
		if err := d.wire.Join(a.Addr); err != nil {
			return err
		}
	}
	// Clip makes append copy: the slice that receiveGroup holds stays
	// unchanged.
	d.groups[a.Addr] = append(slices.Clip(members), q)
	return nil
}

// Leave ends Join.
func (q *UD) Leave(group netip.Addr) error {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leaveGroup(q, group.Unmap())
}

// leaveGroup removes a member. The caller holds the device's lock.
func (d *Device) leaveGroup(q *UD, group netip.Addr) error {
	at := slices.Index(d.groups[group], q)
	if at < 0 {
		return nil
	}
	left := slices.Delete(slices.Clone(d.groups[group]), at, at+1)
	d.groups[group] = left
	if len(left) > 0 {
		return nil
	}
	delete(d.groups, group)
	return d.wire.Leave(group)
}

func (d *Device) leaveGroups(q *UD) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for group := range d.groups {
		_ = d.leaveGroup(q, group) // the wire may have ended
	}
}

// receiveGroup passes a packet to a group's members. Each member decides on its
// own whether to drop it.
func (d *Device) receiveGroup(in *Datagram, p *packet.Packet, rest []byte) Drop {
	d.mu.RLock()
	members := d.groups[addrOf(in.Dst)]
	d.mu.RUnlock()
	if len(members) == 0 {
		return dropDestQP
	}
	for _, q := range members {
		each := *p
		if cause := q.receivePacket(in, &each, rest); cause != notDropped {
			d.counters.countDrop(cause)
		}
	}
	return notDropped
}
