package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// As makes f an rdma.AccessError where the peer's Terminate tells which of its
// memory an RDMA Write or Read of this end could not reach (RFC 5040, Section
// 4.8; RFC 5041, Section 7.1).
func (f *Fault) As(target any) bool {
	e, ok := target.(*rdma.AccessError)
	if !ok || !f.Remote {
		return false
	}
	if h := f.Terminate.RDMAPHeader; h != nil {
		request, err := rdmap.ParseReadRequest(h)
		e.STag = request.SourceSTag
		return err == nil && f.Terminate.Cause.Type == rdmap.TypeProtection
	}
	h := f.Terminate.DDPHeader
	if len(h) == 0 || !ddp.IsTagged(h[0]) {
		return false
	}
	write, _, err := ddp.ParseTagged(h)
	e.STag = write.STag
	return err == nil
}
