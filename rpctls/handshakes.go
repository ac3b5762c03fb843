package rpctls

import (
	"context"
	"net"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// A handshake is under way.
type handshake struct {
	party  *fairshare.Party[struct{}]
	number uint64
	end    context.CancelCauseFunc
}

var (
	errStalled = &Error{Reason: Stalled, Text: "the TLS handshake took longer than " + handshakeTime.String()}
	errCrowded = &Error{Reason: Stalled, Text: "the TLS handshake stood still while others began: there were too many"}
)

// begin takes a place for a handshake, if necessary that of the oldest of the party
// with the most.
func (s *Server) begin(ctx context.Context, nc net.Conn) (context.Context, *handshake) {
	ctx, end := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &handshake{party: s.parties.Enter(nc.RemoteAddr()), number: s.begun, end: end}
	s.begun++
	if s.parties.Full(h.party, len(s.handshakes), s.places) {
		most := s.parties.Yields(h.party)
		if most == nil {
			most = h.party
		}
		s.oldestLocked(most).crowdOut(s)
	}
	s.handshakes[h] = struct{}{}
	return ctx, h
}

func (s *Server) oldestLocked(p *fairshare.Party[struct{}]) (oldest *handshake) {
	for h := range s.handshakes {
		if h.party == p && (oldest == nil || h.number < oldest.number) {
			oldest = h
		}
	}
	return oldest
}

// crowdOut ends a handshake in favour of another. The caller holds s.mu.
func (h *handshake) crowdOut(s *Server) {
	if h != nil { // a party may have nothing but the newcomer
		h.end(errCrowded)
		delete(s.handshakes, h)
	}
}

func (s *Server) end(h *handshake) {
	h.end(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handshakes, h)
	s.parties.Leave(h.party)
}
