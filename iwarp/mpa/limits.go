package mpa

// Lengths of a start-up frame, in bytes (RFC 5044, Section 7.1.1).
const (
	HeaderLen      = 20  // before the private data
	EnhancedLen    = 4   // header of RFC 6581, Section 9, before the private data
	MaxPrivateData = 512 // the largest PD_Length, including EnhancedLen
)

// Lengths of an FPDU, in bytes (RFC 5044, Sections 3 and 4.1).
const (
	LengthLen     = 2     // the ULPDU_Length field
	CRCLen        = 4     // the CRC field
	MaxTrailerLen = 7     // pad and CRC field
	MinMULPDU     = 128   // the smallest MULPDU, for any segment size
	MaxULPDU      = 64768 // the longest ULPDU to send; some peers send longer ULPDUs, up to 65535
)

// Revisions of MPA that this package speaks.
const (
	Rev1 = 1 // RFC 5044
	Rev2 = 2 // RFC 6581
)

// NotNegotiated as an IRD or ORD says that the upper layers agree on the number
// themselves (RFC 6581, Section 9.1).
const NotNegotiated = 0x3fff

// MaxDepth is the largest IRD or ORD that can be negotiated, in RDMA Read
// Requests.
const MaxDepth = NotNegotiated - 1
