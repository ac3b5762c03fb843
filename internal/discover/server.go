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
	"github.com/nfsrdma/nfsrdma/rdma/roce"
)

// Group returns the multicast group that servers join, for an address's family. The
// IPv4 group does not leave the site, the IPv6 group does not leave the link.
func Group(of netip.Addr) netip.Addr {
	if of.Unmap().Is4() {
		return netip.AddrFrom4([4]byte{239, 255, 78, 70}) // NF
	}
	return netip.MustParseAddr("ff12::4e46:5364")
}

// A Config configures a Server.
type Config struct {
	// Describe returns the server's description; it is called for each query,
	// and must be quick.
	Describe func() Description

	// Count fills in all counters except Boot and Sequence, in memory that it
	// may reuse; nil means no counters. Several goroutines may call it, each
	// with separate counters.
	Count func(*Counters)

	// Monitors reports whether an address may see counters; nil allows none.
	Monitors func(netip.Addr) bool

	// Clients are the clients that Save stored in the last run; nil means none.
	// Save stores them for the next run; if Save is nil, they are lost.
	Clients []byte
	Save    func([]byte) error

	// Log receives events for the administrator; nil means slog.Default().
	Log *slog.Logger
}

// A Server handles requests on a device, sends notices of its start to the last
// run's clients, and streams counters.
type Server struct {
	*Responder
	cfg      Config
	dev      *roce.Device
	ud       *roce.UD
	monitors *counterStreams
	memory   [receiveCount][]byte
	stop     chan struct{}
	running  sync.WaitGroup
}

// Serve starts to serve on a device, which the caller still owns. A failure to join
// the group is logged: clients that know the address find the server anyway.
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
		if err := s.clients.decode(cfg.Clients, time.Now()); err != nil {
			cfg.Log.Warn("cannot read the stored client list; clients of the previous run are not notified of the restart", "err", err)
		}
	}
	if err := s.openQueuePair(); err != nil {
		return nil, err
	}
	if err := s.ud.Join(Group(dev.Addr())); err != nil {
		cfg.Log.Warn("cannot join the multicast group; clients can discover this server only by its address", "err", err)
	}
	s.running.Go(s.serveNotices)
	return s, nil
}

// openQueuePair creates the queue pair with the well-known number.
func (s *Server) openQueuePair() (err error) {
	if s.ud, err = s.dev.NewProtectionDomain().NewUD(roce.UDConfig{Recv: s, Recvs: receiveCount, Number: QP}); err != nil {
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

// Complete answers received messages (roce.Completer).
func (s *Server) Complete(c roce.Completion) {
	if !c.Received || c.Err != nil {
		return
	}
	m := s.memory[c.ID]
	if out, qkey := s.answerMessage(m[roce.GRHLen:c.Bytes], c.From, time.Now()); out != nil {
		s.sendMessage(outgoingMessage{roce.Destination{Address: roce.Address{Addr: c.From.Addr}, QP: c.From.QP, QKey: qkey &^ (1 << 31)}, out})
	}
	_ = s.ud.PostRecv(roce.Recv{Data: m, ID: c.ID}) // cannot fail: the receive has just completed
}

// sendMessage sends a message. The message may be lost for any reason.
func (s *Server) sendMessage(l outgoingMessage) {
	_ = s.ud.Post(roce.WR{Op: rdma.OpSend, Data: [][]byte{l.body}, To: l.to})
}

// serveNotices sends due notices and saves changed clients until Close.
func (s *Server) serveNotices() {
	t := time.NewTicker(noticeInterval)
	defer t.Stop()
	for {
		for _, l := range s.dueNotices(time.Now()) {
			s.sendMessage(l)
		}
		select {
		case <-s.stop:
			return
		case now := <-t.C:
			s.saveClients(now)
		}
	}
}

// saveClients stores the clients, if they have changed.
func (s *Server) saveClients(now time.Time) {
	if s.cfg.Save == nil {
		return
	}
	if b := s.encodeUnsaved(now); b != nil {
		if err := s.cfg.Save(b); err != nil {
			s.markUnsaved()
			s.cfg.Log.Warn("cannot store the client list; newly registered clients would not be notified of a restart", "err", err)
		}
	}
}

// Boot returns the number that identifies this start of the server.
func (s *Server) Boot() uint64 { return s.boot }

// Stats returns the server's totals.
func (s *Server) Stats() Totals {
	t := s.currentTotals()
	t.Updates, t.Monitors = s.monitors.updates.Load(), s.monitors.countStreams()
	return t
}

// Close stops the server. It saves the clients for the next run.
func (s *Server) Close() {
	s.ud.Close()
	close(s.stop)
	s.running.Wait()
	s.monitors.close()
	s.saveClients(time.Now().Add(saveTime)) // including renewals
}
