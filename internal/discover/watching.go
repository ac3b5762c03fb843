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
	updates chan []byte // the last unread update; room for one
}

// Watch starts a stream of a server's counters, and calls show for each update,
// until show returns false or ctx ends. Lost updates leave gaps in the
// sequence. Watch asks a silent server again; after a restart of the server the
// stream is new, with another boot. If an answer takes longer than patience,
// the error is ErrNoAnswer.
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
		_ = p.send(server, KindWatch, 0, w, minRequest) // otherwise the lease ends
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

// subscribe starts or renews the stream.
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

// connect connects the queue pair to a stream's, in place of any earlier
// connection.
func (s *sink) connect(server netip.Addr, w Watching) error {
	s.uc.Reset()
	if err := s.uc.Init(); err != nil {
		return err
	}
	for range recvs { // an update has immediate data, so uses a receive
		if err := s.uc.PostRecv(roce.Recv{}); err != nil {
			return err
		}
	}
	return s.uc.ReadyToReceive(roce.Peer{Address: roce.Address{Addr: server}, QP: w.QP, PMTU: int(w.PMTU), PSN: w.PSN})
}

// Complete takes an update (roce.Completer), while nothing can write the
// memory. It replaces an unread update.
func (s *sink) Complete(c roce.Completion) {
	if c.Err != nil {
		return
	}
	_ = s.uc.PostRecv(roce.Recv{}) // cannot fail: the receive has just completed
	if c.Op != rdma.OpWrite || c.Bytes > len(s.memory) {
		return
	}
	b := append([]byte(nil), s.memory[:c.Bytes]...)
	select {
	case <-s.updates:
	default:
	}
	s.updates <- b // does not block: this goroutine is the only sender
}

// follow shows updates until renewal is due, or no update has come for long.
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
