package ddp

// MaxMessageLen is the length in octets of the longest message (RFC 5041,
// Section 5.2).
const MaxMessageLen = 1<<32 - 1

// FirstMSN is the message sequence number of the first message of a queue
// (RFC 5041, Section 4.3). It goes up by one with each message, modulo 2^32.
const FirstMSN = 1

// NextSegment returns how many octets of payload the segment carries that
// starts off octets into a message of length octets, and whether it is the
// last. No segment, its header of headerLen octets included, exceeds mulpdu,
// which is at least 128. A message of no octets is one segment (RFC 5041,
// Section 5.2).
//
//	for off := 0; ; {
//		n, last := NextSegment(length, off, mulpdu, TaggedLen)
//		// send n octets at off
//		if off += n; last {
//			break
//		}
//	}
func NextSegment(length, off, mulpdu, headerLen int) (n int, last bool) {
	n = min(length-off, mulpdu-headerLen)
	return n, off+n == length
}
