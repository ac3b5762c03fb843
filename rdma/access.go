package rdma

import "fmt"

// An AccessError is among the errors of a connection that the peer ended, and of
// the work that this left undone, where an RDMA Write or Read went to memory
// that the peer did not let it reach. A Write may have completed before: that
// it left says nothing of its fate.
type AccessError struct {
	STag STag // the peer's memory
}

// Error returns the tag.
func (e AccessError) Error() string { return fmt.Sprintf("no access to STag %v of the peer", e.STag) }
