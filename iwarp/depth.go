package iwarp

import "github.com/nfsrdma/nfsrdma/rdma"

var _ rdma.ReadDepth = (*Conn)(nil)

// ReadDepth returns what MPA's start-up negotiated (rdma.ReadDepth).
func (c *Conn) ReadDepth() (ird, ord int) { return c.params.IRD, c.params.ORD }
