package iwarp

import "github.com/nfsrdma/nfsrdma/iwarp/rdmap"

// Statistics is a snapshot of the state and the counts of a device.
type Statistics struct {
	Connections      int    // running now
	ConnectionsTotal uint64 // ever started
	Regions          int    // registered now,
	RegionOctets     uint64 // and their total size in bytes

	Sent, Received Counts // of all connections ever started

	// Terminates by the error that they reported.
	TerminatesSent, TerminatesReceived map[rdmap.Error]uint64
}

// Counts is the traffic of one direction.
type Counts struct {
	Messages [rdmap.Opcodes]uint64 // whole messages, by rdmap.Opcode
	FPDUs    uint64
	Octets   uint64 // bytes behind the DDP headers: the upper layers' data, and RDMAP's headers
}

// add counts an FPDU.
func (n *Counts) add(op rdmap.Opcode, last bool, octets int) {
	n.FPDUs++
	n.Octets += uint64(octets)
	if last {
		n.Messages[op]++
	}
}

// sum adds the counts of m.
func (n *Counts) sum(m *Counts) {
	n.FPDUs += m.FPDUs
	n.Octets += m.Octets
	for op, messages := range m.Messages {
		n.Messages[op] += messages
	}
}

// Stats returns the statistics of the device.
func (d *Device) Stats() Statistics {
	s := d.conns.stats()
	for i := range d.shard {
		t := &d.shard[i]
		t.mu.RLock()
		s.Regions += len(t.m)
		s.RegionOctets += t.octets
		t.mu.RUnlock()
	}
	s.TerminatesSent, s.TerminatesReceived = d.terminates.sent.read(), d.terminates.received.read()
	return s
}

// Counts returns the traffic that c has sent and received.
func (c *Conn) Counts() (sent, received Counts) {
	c.addTo(&sent, &received)
	return sent, received
}
