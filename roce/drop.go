package roce

import (
	"fmt"
	"sync/atomic"
)

// A Drop is the cause of a dropped packet. Only the counters record a drop:
// unreliable services have no other answer (section 9.9).
type Drop uint8

// The causes, in the order of the checks: the checks of section 9.6 for every
// packet, then figure 117 for the receive queue.
const (
	DropLength    Drop = iota // no complete packet, or not of whole words
	DropICRC                  // the invariant CRC
	DropVersion               // BTH:TVer
	DropDestQP                // no such queue pair or group
	DropState                 // the queue pair is not ready to receive
	DropService               // the opcode is another transport service's
	DropPKey                  // of another partition
	DropAddress               // UC: not from the connected peer
	DropQKey                  // UD
	DropPSN                   // UC: not the expected one, and no start of a message
	DropSequence              // UC: the opcode cannot follow the last one
	DropOpcode                // reserved, or not supported by this queue pair
	DropPad                   // UC: a pad before the message's end
	DropRKey                  // no such region
	DropDomain                // the region is another protection domain's
	DropAccess                // the region is not writable
	DropBounds                // outside the region, or beyond the message's own length
	DropNoRecv                // no receive was posted
	DropPayload               // wrong length for such a packet
	DropRoom                  // longer than the posted receive
	DropForm                  // of raw datagrams: wrong form
	DropVCRC                  // of raw datagrams: the variant CRC
	DropTransport             // of raw datagrams: with an IBA transport header
	Drops                     // number of causes

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

// Counts are the totals of one direction.
type Counts struct {
	Packets  uint64
	Messages uint64 // complete messages
	Bytes    uint64 // bytes of their payload
}

// Statistics are the counters of a device.
type Statistics struct {
	Sent, Received Counts

	// Gaps is how often a UC packet did not have the expected PSN because of
	// loss, duplication or reordering. Broken is the number of messages that
	// were abandoned after their first packet.
	Gaps, Broken uint64

	// Dropped counts packets by cause.
	Dropped [Drops]uint64
}

type counts struct{ packets, messages, bytes atomic.Uint64 }

func (c *counts) read() Counts {
	return Counts{Packets: c.packets.Load(), Messages: c.messages.Load(), Bytes: c.bytes.Load()}
}

// counters are a device's.
type counters struct {
	sent, received counts
	gaps, broken   atomic.Uint64
	dropped        [Drops]atomic.Uint64
}

func (c *counters) drop(cause Drop) { c.dropped[cause].Add(1) }

// message counts a message that has arrived complete.
func (c *counters) message(size int) {
	c.received.messages.Add(1)
	c.received.bytes.Add(uint64(size))
}

func (c *counters) read() Statistics {
	s := Statistics{Sent: c.sent.read(), Received: c.received.read(), Gaps: c.gaps.Load(), Broken: c.broken.Load()}
	for i := range c.dropped {
		s.Dropped[i] = c.dropped[i].Load()
	}
	return s
}
