package discover

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// monitors are the streams of a server. Each stream has a queue pair, which
// receives nothing and ends with the lease.
type monitors struct {
	dev     *roce.Device
	pd      *roce.ProtectionDomain
	allowed func(netip.Addr) bool
	count   func(*Counters)
	updates atomic.Uint64

	mu      sync.Mutex
	m       map[place]*monitor
	closed  bool
	running sync.WaitGroup
}

// A monitor is one stream.
type monitor struct {
	uc    *roce.UC
	watch Watch
	told  Watching
	until time.Time
	gone  chan struct{} // closed at its end
}

func newMonitors(dev *roce.Device, allowed func(netip.Addr) bool, count func(*Counters)) *monitors {
	return &monitors{dev: dev, pd: dev.NewProtectionDomain(), allowed: allowed, count: count, m: make(map[place]*monitor)}
}

// lease returns how long a stream continues without renewal.
func lease(interval time.Duration) time.Duration { return max(leaseTime, renewed*interval) }

// watch begins, renews or ends a stream (streams).
func (s *monitors) watch(from roce.Source, w Watch, now time.Time) (Watching, Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{from.Addr, w.QP}
	m := s.m[at]
	switch {
	case s.count == nil || !s.allowed(from.Addr):
		return Watching{}, RefusedHost
	case w.Interval == 0 && m != nil:
		s.end(at, m)
		return m.told, 0
	case w.Interval < MinInterval || w.Interval > MaxInterval || w.Room < CountersRoom:
		return Watching{}, RefusedValue
	case m != nil && m.watch.Sink == w.Sink && m.watch.PMTU == w.PMTU:
		m.watch.Interval, m.told.Interval, m.told.Lease = w.Interval, w.Interval, lease(w.Interval)
		m.until = now.Add(m.told.Lease)
		return m.told, 0
	case s.closed || m == nil && len(s.m) >= maxMonitors:
		return Watching{}, RefusedRoom
	}
	if m != nil { // a new monitor has the address and number of a lost one
		s.end(at, m)
	}
	m, err := s.open(from, w)
	if err != nil {
		return Watching{}, RefusedValue // no connection to such a queue pair is possible
	}
	m.until = now.Add(m.told.Lease)
	s.m[at] = m
	s.running.Go(func() { s.run(at, m) })
	return m.told, 0
}

// open makes the queue pair of a stream.
func (s *monitors) open(from roce.Source, w Watch) (*monitor, error) {
	uc, err := s.pd.NewUC(roce.UCConfig{Recvs: 1})
	if err != nil {
		return nil, err
	}
	m := &monitor{uc: uc, watch: w, gone: make(chan struct{})}
	m.told = Watching{
		QP: uc.Number(), PSN: rand.Uint32() & packet.Mask24, PMTU: uint32(min(int64(w.PMTU), int64(s.dev.MaxPMTU()))),
		Interval: w.Interval, Lease: lease(w.Interval),
	}
	peer := roce.Peer{Address: roce.Address{Addr: from.Addr}, QP: w.QP, PMTU: int(m.told.PMTU)}
	if err := uc.Connect(peer, m.told.PSN); err != nil {
		uc.Close()
		return nil, err
	}
	return m, nil
}

// end ends a stream. The caller holds the lock.
func (s *monitors) end(at place, m *monitor) {
	delete(s.m, at)
	close(m.gone)
}

// run sends updates until the lease ends.
func (s *monitors) run(at place, m *monitor) {
	defer m.uc.Close()
	var c Counters
	block := make([]byte, 0, CountersRoom)
	timer := time.NewTimer(firstUpdate)
	defer timer.Stop()
	for {
		select {
		case <-m.gone:
			return
		case now := <-timer.C:
			interval, sink, alive := s.next(at, m, now)
			if !alive {
				return
			}
			timer.Reset(interval)
			s.count(&c)
			c.Sequence++
			block = c.AppendTo(block[:0])
			if m.send(block, sink, c.Sequence) == nil {
				s.updates.Add(1)
			}
		}
	}
}

// next returns the interval and the sink of a stream, and forgets a stream
// whose lease has ended.
func (s *monitors) next(at place, m *monitor, now time.Time) (interval time.Duration, sink rdma.Remote, alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.m[at] != m:
		return 0, rdma.Remote{}, false
	case !now.Before(m.until) || m.uc.State() != roce.RTS:
		s.end(at, m)
		return 0, rdma.Remote{}, false
	}
	return m.told.Interval, m.watch.Sink, true
}

// send writes an update into the monitor's memory. A lost update is no error.
func (m *monitor) send(block []byte, sink rdma.Remote, sequence uint32) error {
	return m.uc.Post(roce.WR{
		Op: rdma.OpWrite, Data: [][]byte{block}, Remote: sink, Immediate: sequence, WithImmediate: true,
	})
}

// len returns the number of streams.
func (s *monitors) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.m)
}

// close ends all streams.
func (s *monitors) close() {
	s.mu.Lock()
	s.closed = true
	for at, m := range s.m {
		s.end(at, m)
	}
	s.mu.Unlock()
	s.running.Wait()
}
