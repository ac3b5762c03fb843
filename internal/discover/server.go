package discover

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce"
)

// Group returns the multicast group that servers join, of the family of an address.
// Neither leaves the site, nor the link where addresses are IPv6's.
func Group(of netip.Addr) netip.Addr {
	if of.Unmap().Is4() {
		return netip.AddrFrom4([4]byte{239, 255, 78, 70}) // NF
	}
	return netip.MustParseAddr("ff12::4e46:5364")
}

// A Config says what a Server tells, and to whom.
type Config struct {
	// Describe says what the server is; it is called for each query, and must
	// be quick.
	Describe func() Description

	// Count fills in counters, all but Boot and Sequence, in memory that it may
	// use again; nil: there are none to be seen. It may be called by several
	// goroutines, each with counters of its own.
	Count func(*Counters)

	// Monitors tells who may see counters; nil: nobody.
	Monitors func(netip.Addr) bool

	// Clients are those of the last time, as Save had them; nil: there were
	// none. Save keeps them for the next time; nil: they are forgotten.
	Clients []byte
	Save    func([]byte) error

	// Log is told what the administrator should know; nil means
	// slog.Default().
	Log *slog.Logger
}

// A Server answers at a device, tells the clients of the last time that it has been
// started, and streams counters.
type Server struct {
	*Responder
	cfg      Config
	dev      *roce.Device
	ud       *roce.UD
	monitors *monitors
	memory   [recvs][]byte
	stop     chan struct{}
	running  sync.WaitGroup
}

// Serve begins to serve at a device, which stays the caller's. A group that cannot
// be joined is in the log: those who know the address find the server anyway.
func Serve(dev *roce.Device, cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Monitors == nil {
		cfg.Monitors = func(netip.Addr) bool { return false }
	}
	boot := rand.Uint64()
	var count func(*Counters)
	if cfg.Count != nil {
		count = func(c *Counters) {
			cfg.Count(c)
			c.Boot = boot
		}
	}
	s := &Server{cfg: cfg, dev: dev, stop: make(chan struct{}), monitors: newMonitors(dev, cfg.Monitors, count)}
	s.Responder = newResponder(boot, time.Now(), cfg.Describe, s.monitors)
	if cfg.Clients != nil {
		if err := s.clients.load(cfg.Clients, time.Now()); err != nil {
			cfg.Log.Warn("the clients of the last time are not told of the restart", "err", err)
		}
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	if err := s.ud.Join(Group(dev.Addr())); err != nil {
		cfg.Log.Warn("clients find this server by its address alone", "err", err)
	}
	s.running.Go(s.tend)
	return s, nil
}

// open makes the queue pair that everybody knows.
func (s *Server) open() (err error) {
	if s.ud, err = s.dev.NewProtectionDomain().NewUD(roce.UDConfig{Recv: s, Recvs: recvs, Number: QP}); err != nil {
		return fmt.Errorf("discover: %w", err)
	}
	err = s.ud.Init(QKey)
	for i := range s.memory {
		s.memory[i] = make([]byte, roce.GRHLen+maxMessage)
		err = errors.Join(err, s.ud.PostRecv(roce.Recv{Data: s.memory[i], ID: uint64(i)}))
	}
	err = errors.Join(err, s.ud.ReadyToReceive(), s.ud.ReadyToSend(0))
	if err != nil {
		s.ud.Close()
	}
	return err
}

// Complete answers what has come in (roce.Completer).
func (s *Server) Complete(c roce.Completion) {
	if !c.Received || c.Err != nil {
		return
	}
	m := s.memory[c.ID]
	if out, qkey := s.answer(m[roce.GRHLen:c.Octets], c.From, time.Now()); out != nil {
		s.send(letter{roce.Destination{Address: roce.Address{Addr: c.From.Addr}, QP: c.From.QP, QKey: qkey &^ (1 << 31)}, out})
	}
	_ = s.ud.PostRecv(roce.Recv{Data: m, ID: c.ID}) // it has just been taken
}

// send sends a message that may be lost, whatever the reason.
func (s *Server) send(l letter) {
	_ = s.ud.Post(roce.WR{Op: rdma.OpSend, Data: [][]byte{l.body}, To: l.to})
}

// tend does what time asks for: notices while they are due, and saving.
func (s *Server) tend() {
	t := time.NewTicker(tendTime)
	defer t.Stop()
	for {
		for _, l := range s.notices(time.Now()) {
			s.send(l)
		}
		select {
		case <-s.stop:
			return
		case now := <-t.C:
			s.save(now)
		}
	}
}

// save keeps the clients, where something about them is to be kept.
func (s *Server) save(now time.Time) {
	if s.cfg.Save == nil {
		return
	}
	if b := s.unsaved(now); b != nil {
		if err := s.cfg.Save(b); err != nil {
			s.cfg.Log.Warn("clients would not be told of a restart", "err", err)
		}
	}
}

// Boot returns what tells this start of the server from others.
func (s *Server) Boot() uint64 { return s.boot }

// Stats returns what the server has done.
func (s *Server) Stats() Totals {
	t := s.stats()
	t.Updates, t.Monitors = s.monitors.updates.Load(), s.monitors.len()
	return t
}

// Close ends it. The clients are kept for the next time.
func (s *Server) Close() {
	s.ud.Close()
	close(s.stop)
	s.running.Wait()
	s.monitors.close()
	s.save(time.Now().Add(saveTime)) // renewals too, whenever it was the last time
}
