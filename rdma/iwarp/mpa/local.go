package mpa

// CRC is an end's policy on CRCs. Under every policy CRCs are generated and
// checked if the peer requires them (RFC 5044, Section 4.4).
type CRC uint8

// The policies. The zero value is the default that RFC 5044 demands.
const (
	CRCOn   CRC = iota // require CRCs
	CRCAuto            // require them as initiator; as responder follow the initiator
	CRCOff             // no CRCs, unless the peer requires them
)

// Local is one end's configuration for a connection's start-up.
type Local struct {
	CRC CRC

	// Markers requests Markers in the stream that this end receives. An end
	// that receives its bytes in order, as from a socket, has no use for
	// Markers.
	Markers bool

	// IRD is the maximum number of the peer's RDMA Reads that this end serves
	// concurrently, and ORD the maximum number that this end has outstanding.
	// Values above MaxDepth are clipped. Linux rejects a peer whose Request has
	// an IRD of 0 or whose Reply has an ORD of 0 or above 128.
	IRD, ORD uint16

	// MinORD is the minimum number of outstanding RDMA Reads that this end
	// needs as responder: it rejects an initiator whose IRD is smaller. 0
	// rejects none.
	MinORD uint16

	// RTR is the set of indications that this end can receive as responder or
	// send as initiator; 0 means all. RTRRead makes a responder serve one RDMA
	// Read even if IRD is 0.
	RTR RTR

	// PeerToPeer requests the peer-to-peer model, as initiator.
	PeerToPeer bool

	// Unenhanced restricts the initiator to revision 1.
	Unenhanced bool
}

func (l Local) clippedIRD() uint16 { return min(l.IRD, MaxDepth) }
func (l Local) clippedORD() uint16 { return min(l.ORD, MaxDepth) }

func (l Local) rtrSet() RTR {
	if l.RTR == 0 {
		return RTRSend | RTRWrite | RTRRead
	}
	return l.RTR
}

// Params is the start-up's result. The peer's offer is in its frame.
type Params struct {
	Rev uint8 // MPA revision
	CRC bool  // CRCs are generated and checked, in both directions

	// SendMarkers and RecvMarkers tell which stream direction contains Markers:
	// each end decides for the direction that it receives.
	SendMarkers, RecvMarkers bool

	IRD int // peer's RDMA Reads that this end must serve concurrently
	ORD int // RDMA Reads that this end may have outstanding

	// PeerToPeer is set if the initiator sends an RTR indication before
	// anything else.
	PeerToPeer bool

	// RTR is, for a responder, the set of indications to expect, and for an
	// initiator, the indication to send.
	RTR RTR
}
