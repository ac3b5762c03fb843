package rpctls

import "time"

// Stats is a snapshot of a Server.
type Stats struct {
	Open, Mutual int    // present connections, and those whose clients have shown certificates
	Handshakes   int    // under way
	Made         uint64 // connections so far
	Clear        uint64 // connections without TLS so far, of clients that could have it
	Cut          uint64 // because their certificates were trusted no longer
	Failed       map[string]uint64
	Certificate  string    // the path of the server's certificate
	Ends         time.Time // of the certificate
	Strict       bool
	Kernel       string // whether the kernel makes records: off, on, or not available
}

// Stats returns the state and the counters of s. Failed has all reasons.
func (s *Server) Stats() Stats {
	cert := s.store.material().cert
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{
		Open: len(s.conns), Handshakes: len(s.handshakes), Made: s.made, Cut: s.cut, Clear: s.clear,
		Failed: make(map[string]uint64, reasons), Certificate: s.cfg.Files.Cert, Ends: cert.Leaf.NotAfter, Strict: s.cfg.Strict,
		Kernel: s.kernel.String(),
	}
	for r, n := range s.failed {
		st.Failed[Reason(r).String()] = n
	}
	for c := range s.conns {
		if c.security.Mutual {
			st.Mutual++
		}
	}
	return st
}
