package rdma

// A Placer is a Region that knows which of its octets the peer has written. Not every
// provider's regions are.
type Placer interface {
	Region

	// Placed tells whether the peer has written each of the first n octets, in
	// whatever order and pieces. Deregister must have returned.
	Placed(n int) bool
}
