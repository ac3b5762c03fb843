package roce

import (
	"fmt"
	"sync/atomic"
)

// A Drop is why a packet was dropped. Nobody is told of a drop but the counters:
// unreliable services have no other answer (section 9.9).
type Drop uint8

// The causes, in the order of the checks: what 9.6 asks of every packet, then
// figure 117 for the receive queue.
const (
	DropLength    Drop = iota // no whole packet, or not of whole words
	DropICRC                  // the invariant CRC
	DropVersion               // BTH:TVer
	DropDestQP                // there is no such queue pair, or group
	DropState                 // it is not ready to receive
	DropService               // the opcode is another transport service's
	DropPKey                  // of another partition
	DropAddress               // UC: not from the end that it is connected to
	DropQKey                  // UD
	DropPSN                   // UC: not the expected one, and no start of a message
	DropSequence              // UC: the opcode cannot follow the last one
	DropOpcode                // reserved, or not supported by this queue pair
	DropPad                   // UC: a pad in front of more of the message
	DropRKey                  // no such region
	DropDomain                // the region is another protection domain's
	DropAccess                // the region is not to be written
	DropBounds                // not within the region, or the message's own length
	DropNoRecv                // no receive was posted
	DropPayload               // not as long as such a packet has to be
	DropRoom                  // longer than the posted receive
	DropForm                  // of raw datagrams: not one
	DropVCRC                  // of raw datagrams: the variant CRC
	DropTransport             // of raw datagrams: with an IBA transport header
	Drops                     // how many causes there are

	taken = Drops // not dropped
)

var dropNames = [Drops]string{
	"length", "icrc", "version", "destination_qp", "state", "service", "p_key", "address", "q_key",
	"psn", "sequence", "opcode", "pad", "r_key", "protection_domain", "access", "bounds", "no_receive",
	"payload_length", "receive_room", "raw_form", "vcrc", "raw_transport",
}

// String returns the name of the cause's counter.
func (d Drop) String() string {
	if d < Drops {
		return dropNames[d]
	}
	return fmt.Sprintf("Drop(%d)", uint8(d))
}

// Counts is what has gone in one direction.
type Counts struct {
	Packets  uint64
	Messages uint64 // whole ones
	Octets   uint64 // of their payload
}

// Statistics is what a device has done.
type Statistics struct {
	Sent, Received Counts

	// Gaps is how often a packet of UC did not have the expected PSN: how
	// often something was lost, came twice, or in another order. Broken is how
	// many messages had begun to come in and were given up.
	Gaps, Broken uint64

	// Dropped counts packets by cause.
	Dropped [Drops]uint64
}

type counts struct{ packets, messages, octets atomic.Uint64 }

func (c *counts) read() Counts {
	return Counts{Packets: c.packets.Load(), Messages: c.messages.Load(), Octets: c.octets.Load()}
}

// counters are a device's.
type counters struct {
	sent, received counts
	gaps, broken   atomic.Uint64
	dropped        [Drops]atomic.Uint64
}

func (c *counters) drop(cause Drop) { c.dropped[cause].Add(1) }

// message counts one that has come whole.
func (c *counters) message(octets int) {
	c.received.messages.Add(1)
	c.received.octets.Add(uint64(octets))
}

func (c *counters) read() Statistics {
	s := Statistics{Sent: c.sent.read(), Received: c.received.read(), Gaps: c.gaps.Load(), Broken: c.broken.Load()}
	for i := range c.dropped {
		s.Dropped[i] = c.dropped[i].Load()
	}
	return s
}
