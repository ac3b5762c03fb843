package iwarp

import "github.com/nfsrdma/nfsrdma/iwarp/rdmap"

// Statistics is what the device of this process has and has done, at one moment.
type Statistics struct {
	Connections      int    // that are there now
	ConnectionsTotal uint64 // that have been there
	Regions          int    // that are registered now,
	RegionOctets     uint64 // with so many octets in all

	Sent, Received Counts // of all connections that have been there

	// The Terminates by what they said went wrong.
	TerminatesSent, TerminatesReceived map[rdmap.Error]uint64
}

// Counts is what has gone in one direction.
type Counts struct {
	Messages [rdmap.Opcodes]uint64 // whole ones, by rdmap.Opcode
	FPDUs    uint64
	Octets   uint64 // behind the DDP headers: the upper layers' data, and RDMAP's headers
}

// add counts an FPDU.
func (n *Counts) add(op rdmap.Opcode, last bool, octets int) {
	n.FPDUs++
	n.Octets += uint64(octets)
	if last {
		n.Messages[op]++
	}
}

// sum adds what m has counted.
func (n *Counts) sum(m *Counts) {
	n.FPDUs += m.FPDUs
	n.Octets += m.Octets
	for op, messages := range m.Messages {
		n.Messages[op] += messages
	}
}

// Stats returns what the device has and has done.
func Stats() Statistics {
	s := rnic.conns.stats()
	for i := range rnic.shard {
		t := &rnic.shard[i]
		t.mu.RLock()
		s.Regions += len(t.m)
		s.RegionOctets += t.octets
		t.mu.RUnlock()
	}
	s.TerminatesSent, s.TerminatesReceived = rnic.terminates.sent.read(), rnic.terminates.received.read()
	return s
}

// Counts returns what c has sent and received.
func (c *Conn) Counts() (sent, received Counts) {
	c.addTo(&sent, &received)
	return sent, received
}
