package discover

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
)

// A counterSink is the memory into which a server writes its counters.
type counterSink struct {
	uc      *roce.UC
	region  *roce.Region
	memory  []byte
	updates chan []byte // the last unread update; capacity 1
}

// Watch starts a stream of a server's counters, and calls show for each update,
// until show returns false or ctx is done. Lost updates leave gaps in the sequence.
// Watch repeats the request if the server is silent; after a server restart the
// stream is new, with another boot number. If a reply takes longer than patience,
// the error is ErrNoAnswer.
func (p *Port) Watch(ctx context.Context, server netip.Addr, interval, patience time.Duration, show func(*Counters) bool) error {
	s, err := p.newSink()
	if err != nil {
		return err
	}
	w := watchBody{
		QP: s.uc.Number(), PMTU: uint32(p.dev.MaxPMTU()), Interval: interval,
		Sink: rdma.Remote{STag: s.region.STag(), TO: s.region.TO()}, MemoryLen: countersSize,
	}
	defer s.close()
	defer func() {
		w.Interval = 0
		_ = p.sendRequest(server, kindWatch, 0, w, minRequest) // otherwise the lease expires
	}()
	var told watchingBody
	for {
		next, err := p.requestStream(ctx, server, w, patience)
		if err != nil {
			return err
		}
		if next.QP != told.QP || next.PSN != told.PSN {
			if err := s.connectTo(server, next); err != nil {
				return err
			}
		}
		told = next
		if done, err := s.showUpdates(ctx, told, show); done || err != nil {
			return err
		}
	}
}

// requestStream starts or renews the stream.
func (p *Port) requestStream(ctx context.Context, server netip.Addr, w watchBody, patience time.Duration) (watchingBody, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, ErrNoAnswer)
	defer cancel()
	in, err := p.call(ctx, server, kindWatch, w, nil)
	if err != nil {
		return watchingBody{}, err
	}
	m, err := parseWatching(&in.body)
	if err == nil && (m.Interval <= 0 || m.Lease < renewalsPerLease*m.Interval) {
		err = fmt.Errorf("%w: an interval of %v and a lease of %v", errForm, m.Interval, m.Lease)
	}
	return m, err
}

func (p *Port) newSink() (*counterSink, error) {
	s := &counterSink{memory: make([]byte, countersSize), updates: make(chan []byte, 1)}
	var err error
	if s.region, err = p.pd.Register(s.memory, rdma.RemoteWrite); err != nil {
		return nil, err
	}
	if s.uc, err = p.pd.NewUC(roce.UCConfig{Recv: s, Recvs: receiveCount, Access: rdma.RemoteWrite}); err != nil {
		s.region.Deregister()
		return nil, err
	}
	return s, nil
}

func (s *counterSink) close() {
	s.uc.Close()
	s.region.Deregister()
}

// connectTo connects the queue pair to a stream's, and replaces any earlier
// connection.
func (s *counterSink) connectTo(server netip.Addr, w watchingBody) error {
	s.uc.Reset()
	if err := s.uc.Init(); err != nil {
		return err
	}
	for range receiveCount { // an update has immediate data, and so uses a receive
		if err := s.uc.PostRecv(roce.Recv{}); err != nil {
			return err
		}
	}
	return s.uc.ReadyToReceive(roce.Peer{Address: roce.Address{Addr: server}, QP: w.QP, PMTU: int(w.PMTU), PSN: w.PSN})
}

// Complete receives an update (roce.Completer), while nothing can write the memory.
// It replaces an unread update.
func (s *counterSink) Complete(c roce.Completion) {
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

// showUpdates shows updates until renewal is due, or no update has arrived for
// renewalsPerLease intervals.
func (s *counterSink) showUpdates(ctx context.Context, w watchingBody, show func(*Counters) bool) (done bool, err error) {
	ask := time.NewTimer(w.Lease / renewalsPerLease)
	defer ask.Stop()
	silent := time.NewTimer(renewalsPerLease * w.Interval)
	defer silent.Stop()
	for {
		select {
		case b := <-s.updates:
			c, err := parseCounters(b)
			if err != nil {
				return false, err
			}
			silent.Reset(renewalsPerLease * w.Interval)
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
