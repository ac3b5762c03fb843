package mpa

// CRC is an end's policy on CRCs. Whatever it is, they are generated and
// checked where the peer requires them (RFC 5044, Section 4.4).
type CRC uint8

// The policies. The zero value is the default that RFC 5044 demands.
const (
	CRCOn   CRC = iota // require CRCs
	CRCAuto            // require them as initiator; as responder follow the initiator
	CRCOff             // do without, unless the peer requires them
)

// Local is what one end brings to the start-up of a connection.
type Local struct {
	CRC CRC

	// Markers says that this end requires Markers in what it receives. One
	// that gets its octets in order, as from a socket, has no use for them.
	Markers bool

	// IRD is the largest number of RDMA Reads of the peer that this end
	// serves at a time, and ORD that of its own that it has outstanding.
	// Above MaxDepth they are clipped. Linux refuses a peer whose Request
	// has an IRD of 0 or whose Reply has an ORD of 0 or above 128.
	IRD, ORD uint16

	// MinORD is the number of outstanding RDMA Reads that this end cannot
	// do without as responder: an initiator whose IRD is below is
	// rejected. 0 rejects none.
	MinORD uint16

	// RTR is the set of RTR indications that this end can receive as
	// responder or send as initiator; 0 means all. RTRRead makes a
	// responder serve one RDMA Read even where IRD is 0.
	RTR RTR

	// PeerToPeer asks for the peer-to-peer model, as initiator.
	PeerToPeer bool

	// Unenhanced keeps the initiator to revision 1.
	Unenhanced bool
}

func (l Local) ird() uint16 { return min(l.IRD, MaxDepth) }
func (l Local) ord() uint16 { return min(l.ORD, MaxDepth) }

func (l Local) rtr() RTR {
	if l.RTR == 0 {
		return RTRSend | RTRWrite | RTRRead
	}
	return l.RTR
}

// Params is what both ends agreed on. What the peer offered is in its frame.
type Params struct {
	Rev uint8 // revision of MPA
	CRC bool  // CRCs are generated and checked, in both directions

	// SendMarkers and RecvMarkers say in which direction Markers stand in
	// the stream: each end decides on what it receives.
	SendMarkers, RecvMarkers bool

	IRD int // RDMA Reads of the peer that this end must serve at a time
	ORD int // RDMA Reads that this end may have outstanding

	// PeerToPeer says that the initiator sends an RTR indication before
	// anything else.
	PeerToPeer bool

	// RTR is, for a responder, the set of indications to expect, and for
	// an initiator, the one to send.
	RTR RTR
}
