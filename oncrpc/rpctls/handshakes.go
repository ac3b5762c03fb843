package rpctls

import (
	"context"
	"net"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// A handshake is a handshake in progress.
type handshake struct {
	party  *fairshare.Party[struct{}]
	number uint64
	cancel context.CancelCauseFunc
}

var (
	errStalled = &Error{Reason: Stalled, Text: "the TLS handshake took longer than " + handshakeTime.String()}
	errCrowded = &Error{Reason: Stalled, Text: "the TLS handshake was stalled, and was aborted in favor of others: there were too many"}
)

// beginHandshake acquires a slot for a handshake, if necessary by aborting the oldest
// handshake of the party with the most.
func (s *Server) beginHandshake(ctx context.Context, nc net.Conn) (context.Context, *handshake) {
	ctx, end := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &handshake{party: s.parties.Enter(nc.RemoteAddr()), number: s.handshakeCount, cancel: end}
	s.handshakeCount++
	if s.parties.Full(h.party, len(s.handshakes), s.handshakeLimit) {
		most := s.parties.Yields(h.party)
		if most == nil {
			most = h.party
		}
		s.oldestHandshakeLocked(most).crowdOut(s)
	}
	s.handshakes[h] = struct{}{}
	return ctx, h
}

func (s *Server) oldestHandshakeLocked(p *fairshare.Party[struct{}]) (oldest *handshake) {
	for h := range s.handshakes {
		if h.party == p && (oldest == nil || h.number < oldest.number) {
			oldest = h
		}
	}
	return oldest
}

// crowdOut aborts a handshake in favor of another. The caller holds s.mu.
func (h *handshake) crowdOut(s *Server) {
	if h != nil { // a party may have only the newcomer
		h.cancel(errCrowded)
		delete(s.handshakes, h)
	}
}

func (s *Server) endHandshake(h *handshake) {
	h.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handshakes, h)
	s.parties.Leave(h.party)
}
