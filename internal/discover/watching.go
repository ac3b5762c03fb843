package discover

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce"
)

// A sink is the memory that a server writes its counters into.
type sink struct {
	uc      *roce.UC
	region  *roce.Region
	memory  []byte
	updates chan []byte // the last one that nobody has taken; room for one
}

// Watch has a server stream its counters, and calls show for each update that comes,
// until that says no or ctx ends. Updates that are lost are missing in the
// sequence. A server that falls silent is asked again, and when it has been
// restarted, it is another stream, from another boot. It has patience for each
// answer; then the error is ErrNoAnswer.
func (p *Port) Watch(ctx context.Context, server netip.Addr, interval, patience time.Duration, show func(*Counters) bool) error {
	s, err := p.newSink()
	if err != nil {
		return err
	}
	w := Watch{
		QP: s.uc.Number(), PMTU: uint32(p.dev.MaxPMTU()), Interval: interval,
		Sink: rdma.Remote{STag: s.region.STag(), TO: s.region.TO()}, Room: CountersRoom,
	}
	defer s.close()
	defer func() {
		w.Interval = 0
		_ = p.send(server, KindWatch, 0, w, minRequest) // else the lease ends
	}()
	var told Watching
	for {
		next, err := p.subscribe(ctx, server, w, patience)
		if err != nil {
			return err
		}
		if next.QP != told.QP || next.PSN != told.PSN {
			if err := s.connect(server, next); err != nil {
				return err
			}
		}
		told = next
		if done, err := s.follow(ctx, told, show); done || err != nil {
			return err
		}
	}
}

// subscribe asks for the stream, or for more of it.
func (p *Port) subscribe(ctx context.Context, server netip.Addr, w Watch, patience time.Duration) (Watching, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, ErrNoAnswer)
	defer cancel()
	in, err := p.ask(ctx, server, KindWatch, w, nil)
	if err != nil {
		return Watching{}, err
	}
	m, err := parseWatching(&in.body)
	if err == nil && (m.Interval <= 0 || m.Lease < renewed*m.Interval) {
		err = fmt.Errorf("%w: an interval of %v and a lease of %v", ErrForm, m.Interval, m.Lease)
	}
	return m, err
}

func (p *Port) newSink() (*sink, error) {
	s := &sink{memory: make([]byte, CountersRoom), updates: make(chan []byte, 1)}
	var err error
	if s.region, err = p.pd.Register(s.memory, rdma.RemoteWrite); err != nil {
		return nil, err
	}
	if s.uc, err = p.pd.NewUC(roce.UCConfig{Recv: s, Recvs: recvs, Access: rdma.RemoteWrite}); err != nil {
		s.region.Deregister()
		return nil, err
	}
	return s, nil
}

func (s *sink) close() {
	s.uc.Close()
	s.region.Deregister()
}

// connect connects the queue pair to a stream's, in place of what it was connected
// to.
func (s *sink) connect(server netip.Addr, w Watching) error {
	s.uc.Reset()
	if err := s.uc.Init(); err != nil {
		return err
	}
	for range recvs { // each update takes one, for it brings immediate data
		if err := s.uc.PostRecv(roce.Recv{}); err != nil {
			return err
		}
	}
	return s.uc.ReadyToReceive(roce.Peer{Address: roce.Address{Addr: server}, QP: w.QP, PMTU: int(w.PMTU), PSN: w.PSN})
}

// Complete takes an update (roce.Completer), while nothing else can be written. One
// that nobody has taken is replaced.
func (s *sink) Complete(c roce.Completion) {
	if c.Err != nil {
		return
	}
	_ = s.uc.PostRecv(roce.Recv{}) // it has just been taken
	if c.Op != rdma.OpWrite || c.Octets > len(s.memory) {
		return
	}
	b := append([]byte(nil), s.memory[:c.Octets]...)
	select {
	case <-s.updates:
	default:
	}
	s.updates <- b // there is room: nobody else puts any in
}

// follow shows updates until it is time to ask for more, or nothing has come for
// long.
func (s *sink) follow(ctx context.Context, w Watching, show func(*Counters) bool) (done bool, err error) {
	ask := time.NewTimer(w.Lease / renewed)
	defer ask.Stop()
	silent := time.NewTimer(renewed * w.Interval)
	defer silent.Stop()
	for {
		select {
		case b := <-s.updates:
			c, err := ParseCounters(b)
			if err != nil {
				return false, err
			}
			silent.Reset(renewed * w.Interval)
			if !show(c) {
				return true, nil
			}
		case <-ask.C:
			return false, nil
		case <-silent.C:
			return false, nil
		case <-s.uc.Done():
			return false, s.uc.Err()
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}
