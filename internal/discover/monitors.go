package discover

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// counterStreams holds a server's streams. Each stream has a queue pair, which
// receives nothing and is closed when the lease expires.
type counterStreams struct {
	dev     *roce.Device
	pd      *roce.ProtectionDomain
	allowed func(netip.Addr) bool
	count   func(*Counters)
	updates atomic.Uint64

	mu      sync.Mutex
	streams map[clientID]*counterStream
	closed  bool
	running sync.WaitGroup
}

// A counterStream is one stream.
type counterStream struct {
	uc    *roce.UC
	watch watchBody
	reply watchingBody
	until time.Time
	ended chan struct{} // closed when the stream ends
}

func newMonitors(dev *roce.Device, allowed func(netip.Addr) bool, count func(*Counters)) *counterStreams {
	return &counterStreams{dev: dev, pd: dev.NewProtectionDomain(), allowed: allowed, count: count, streams: make(map[clientID]*counterStream)}
}

// leaseFor returns the time for which a stream continues without renewal.
func leaseFor(interval time.Duration) time.Duration { return max(leaseTime, renewalsPerLease*interval) }

// setStream starts, renews or ends a stream (streamStarter).
func (s *counterStreams) setStream(from roce.Source, w watchBody, now time.Time) (watchingBody, Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := clientID{from.Addr, w.QP}
	m := s.streams[at]
	switch {
	case s.count == nil || !s.allowed(from.Addr):
		return watchingBody{}, refusedHost
	case w.Interval == 0 && m != nil:
		s.endStream(at, m)
		return m.reply, 0
	case w.Interval < MinInterval || w.Interval > MaxInterval || w.MemoryLen < countersSize:
		return watchingBody{}, refusedValue
	case m != nil && m.watch.Sink == w.Sink && m.watch.PMTU == w.PMTU:
		m.watch.Interval, m.reply.Interval, m.reply.Lease = w.Interval, w.Interval, leaseFor(w.Interval)
		m.until = now.Add(m.reply.Lease)
		return m.reply, 0
	case s.closed || m == nil && len(s.streams) >= maxMonitors:
		return watchingBody{}, refusedFull
	}
	if m != nil { // a new monitor has the address and number of a lost one
		s.endStream(at, m)
	}
	m, err := s.openStream(from, w)
	if err != nil {
		return watchingBody{}, refusedValue // no connection to such a queue pair is possible
	}
	m.until = now.Add(m.reply.Lease)
	s.streams[at] = m
	s.running.Go(func() { s.sendUpdates(at, m) })
	return m.reply, 0
}

// openStream creates a stream's queue pair.
func (s *counterStreams) openStream(from roce.Source, w watchBody) (*counterStream, error) {
	uc, err := s.pd.NewUC(roce.UCConfig{Recvs: 1})
	if err != nil {
		return nil, err
	}
	m := &counterStream{uc: uc, watch: w, ended: make(chan struct{})}
	m.reply = watchingBody{
		QP: uc.Number(), PSN: rand.Uint32() & packet.Mask24, PMTU: uint32(min(int64(w.PMTU), int64(s.dev.MaxPMTU()))),
		Interval: w.Interval, Lease: leaseFor(w.Interval),
	}
	peer := roce.Peer{Address: roce.Address{Addr: from.Addr}, QP: w.QP, PMTU: int(m.reply.PMTU)}
	if err := uc.Connect(peer, m.reply.PSN); err != nil {
		uc.Close()
		return nil, err
	}
	return m, nil
}

// endStream ends a stream. The caller holds the lock.
func (s *counterStreams) endStream(at clientID, m *counterStream) {
	delete(s.streams, at)
	close(m.ended)
}

// sendUpdates sends a stream's updates until its lease expires or it is ended.
func (s *counterStreams) sendUpdates(at clientID, m *counterStream) {
	defer m.uc.Close()
	var c Counters
	block := make([]byte, 0, countersSize)
	timer := time.NewTimer(firstUpdate)
	defer timer.Stop()
	for {
		select {
		case <-m.ended:
			return
		case now := <-timer.C:
			interval, sink, alive := s.nextUpdate(at, m, now)
			if !alive {
				return
			}
			timer.Reset(interval)
			s.count(&c)
			c.Sequence++
			block = c.AppendTo(block[:0])
			if m.writeUpdate(block, sink, c.Sequence) == nil {
				s.updates.Add(1)
			}
		}
	}
}

// nextUpdate returns a stream's interval and sink, and removes a stream whose lease
// has expired.
func (s *counterStreams) nextUpdate(at clientID, m *counterStream, now time.Time) (interval time.Duration, sink rdma.Remote, alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.streams[at] != m:
		return 0, rdma.Remote{}, false
	case !now.Before(m.until) || m.uc.State() != roce.RTS:
		s.endStream(at, m)
		return 0, rdma.Remote{}, false
	}
	return m.reply.Interval, m.watch.Sink, true
}

// writeUpdate writes an update into the monitor's memory. A lost update is not an
// error.
func (m *counterStream) writeUpdate(block []byte, sink rdma.Remote, sequence uint32) error {
	return m.uc.Post(roce.WR{
		Op: rdma.OpWrite, Data: [][]byte{block}, Remote: sink, Immediate: sequence, WithImmediate: true,
	})
}

// countStreams returns the number of streams.
func (s *counterStreams) countStreams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// close ends all streams.
func (s *counterStreams) close() {
	s.mu.Lock()
	s.closed = true
	for at, m := range s.streams {
		s.endStream(at, m)
	}
	s.mu.Unlock()
	s.running.Wait()
}
