package nfsrdma

import (
	"context"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A tenureGate executes no call, and lets no reply pass, when its tenure is over. It then resets the
// connection: the client sends the call again to the host that has taken over.
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
	if g.tenure.Over() {
		resetPeer(req.Peer)
		return false
	}
	answer = g.next.Serve(ctx, req, rep)
	if g.tenure.Over() { // in the meantime, the next host may have changed what the reply says
		resetPeer(req.Peer)
		rep.Discard()
		return false
	}
	return answer
}

func resetPeer(p *oncrpc.Peer) {
	if p != nil && p.Cut != nil {
		p.Cut(tenure.ErrOver)
	}
}
