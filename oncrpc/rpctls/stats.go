package rpctls

import "time"

// Stats is a snapshot of a Server.
type Stats struct {
	Open, Mutual int    // current connections, and those whose clients presented certificates
	Handshakes   int    // in progress
	Made         uint64 // connections so far
	Clear        uint64 // connections so far whose clients did not use TLS
	Cut          uint64 // connections closed because their certificates were no longer trusted
	Failed       map[string]uint64
	Certificate  string    // the path of the server's certificate
	Ends         time.Time // when the certificate expires; zero if there is a Fault
	Fault        string    // the reason why all handshakes fail, or ""
	Strict       bool
	Kernel       string // whether the kernel encrypts records: off, on, or not available
}

// Stats returns s's state and counters. Failed has all reasons.
func (s *Server) Stats() Stats {
	m := s.store.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{
		Open: len(s.conns), Handshakes: len(s.handshakes), Made: s.madeCount, Cut: s.abortedCount, Clear: s.unencryptedCount,
		Failed: make(map[string]uint64, reasons), Certificate: s.cfg.Files.Cert, Strict: s.cfg.Strict,
		Kernel: s.kernel.String(),
	}
	if m.fault != nil {
		st.Fault = m.fault.Error()
	} else {
		st.Ends = m.cert.Leaf.NotAfter
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
