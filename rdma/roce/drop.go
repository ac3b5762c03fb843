package roce

import (
	"fmt"
	"sync/atomic"
)

// A Drop is the reason why a packet was dropped. Only the counters record a
// drop: unreliable services have no other response (section 9.9).
type Drop uint8

// The causes, in checking order: first section 9.6 for every packet, then
// figure 117 for the receive queue.
const (
	dropLength    Drop = iota // not a complete packet, or not a multiple of a word
	dropICRC                  // the invariant CRC
	dropVersion               // BTH:TVer
	dropDestQP                // no such queue pair or group
	dropState                 // the queue pair is not ready to receive
	dropService               // the opcode is another transport service's
	dropPKey                  // from another partition
	dropAddress               // UC: not from the connected peer
	dropQKey                  // UD
	dropPSN                   // UC: not the expected one, and not the start of a message
	dropSequence              // UC: the opcode cannot follow the last one
	dropOpcode                // reserved, or not supported by this queue pair
	dropPad                   // UC: a pad before the message's end
	dropRKey                  // no such region
	dropDomain                // the region is another protection domain's
	dropAccess                // the region is not writable
	dropBounds                // outside the region, or beyond the message's own length
	dropNoRecv                // no receive was posted
	dropPayload               // wrong length for such a packet
	dropTooLong               // longer than the posted receive
	dropForm                  // raw datagrams: wrong form
	dropVCRC                  // raw datagrams: the variant CRC
	dropTransport             // raw datagrams: with an IBA transport header
	dropCauses                // number of causes

	notDropped = dropCauses // not dropped
)

var dropNames = [dropCauses]string{
	"length", "icrc", "version", "destination_qp", "state", "service", "p_key", "address", "q_key",
	"psn", "sequence", "opcode", "pad", "r_key", "protection_domain", "access", "bounds", "no_receive",
	"payload_length", "receive_room", "raw_form", "vcrc", "raw_transport",
}

// String returns the name of the cause's counter.
func (d Drop) String() string {
	if d < dropCauses {
		return dropNames[d]
	}
	return fmt.Sprintf("Drop(%d)", uint8(d))
}

// Counts are the totals for one direction.
type Counts struct {
	Packets  uint64
	Messages uint64 // complete messages
	Bytes    uint64 // payload bytes in messages
}

// Statistics are a device's counters.
type Statistics struct {
	Sent, Received Counts

	// Gaps is the number of times that a UC packet did not have the expected
	// PSN because of loss, duplication or reordering. Broken is the number of
	// messages that were abandoned after their first packet.
	Gaps, Broken uint64

	// Dropped counts packets by cause.
	Dropped [dropCauses]uint64
}

type directionCounts struct{ packets, messages, bytes atomic.Uint64 }

func (c *directionCounts) snapshot() Counts {
	return Counts{Packets: c.packets.Load(), Messages: c.messages.Load(), Bytes: c.bytes.Load()}
}

// deviceCounters are a device's counters.
type deviceCounters struct {
	sent, received directionCounts
	gaps, broken   atomic.Uint64
	dropped        [dropCauses]atomic.Uint64
}

func (c *deviceCounters) countDrop(cause Drop) { c.dropped[cause].Add(1) }

// countMessage counts a message that has arrived complete.
func (c *deviceCounters) countMessage(size int) {
	c.received.messages.Add(1)
	c.received.bytes.Add(uint64(size))
}

func (c *deviceCounters) snapshot() Statistics {
	s := Statistics{Sent: c.sent.snapshot(), Received: c.received.snapshot(), Gaps: c.gaps.Load(), Broken: c.broken.Load()}
	for i := range c.dropped {
		s.Dropped[i] = c.dropped[i].Load()
	}
	return s
}
