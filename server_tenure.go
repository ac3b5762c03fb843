package nfsrdma

import (
	"context"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A tenureGate lets no reply pass when its tenure is over. It then resets the connection: the client
// sends the call again to the host that has taken over. What a call does to files and to records is
// behind gates of its own, closer to its execution: exportset's and the journal's.
type tenureGate struct {
	next   oncrpc.Service
	tenure *tenure.Tenure
}

// withTenure returns next, behind a tenureGate if there is a tenure.
func withTenure(next oncrpc.Service, held *tenure.Tenure) oncrpc.Service {
	if held == nil {
		return next
	}
	return &tenureGate{next, held}
}

// Resumes returns Resumes of next.
func (g *tenureGate) Resumes() bool { return oncrpc.Resumes(g.next) }

// Serve serves a call.
func (g *tenureGate) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	answer = g.next.Serve(ctx, req, rep)
	if g.tenure.Over() { // in the meantime, the next host may have changed what the reply says
		if req.Peer != nil && req.Peer.Cut != nil {
			req.Peer.Cut(tenure.ErrOver)
		}
		rep.Discard()
		return false
	}
	return answer
}
