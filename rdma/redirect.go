package rdma

// A Remapper is a Region whose memory can be exchanged while the peer may
// reach it. Not every provider's regions are.
type Remapper interface {
	Region

	// Remap lets the peer reach b, which has the region's length, in
	// place of the memory so far. When it returns, nothing reads or changes
	// that any more. A region that is not valid any more stays so.
	Remap(b []byte)
}
