package rpcrdma

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A config holds a Server's settings, with the defaults filled in.
type config struct {
	inline     int
	credits    int
	maxPayload int
	maxMemory  int64
	maxInline  int64
	maxConns   int
}

// largestMessage returns the maximum length of an RPC message held in memory,
// in bytes.
func (c *config) largestMessage() int { return c.maxPayload + headSlack }

// init fills in and checks the fields, once.
func (s *Server) init() error {
	s.initOnce.Do(func() {
		s.cfg = config{
			inline:     orDefault(s.Inline, defaultInline) &^ 1023,
			credits:    orDefault(s.Credits, defaultCredits),
			maxPayload: orDefault(s.MaxPayload, defaultMaxPayload),
			maxMemory:  orDefault(s.MaxMemory, defaultMaxMemory),
			maxInline:  orDefault(s.MaxInline, defaultMaxInline),
			maxConns:   orDefault(s.MaxConns, DefaultMaxConns),
		}
		s.err = errors.Join(s.checkConfig(), s.fillReverse())
		s.memory = fairshare.NewMemory(s.cfg.maxMemory, s.cfg.partyShare(), fairshare.NewPress(s.abortStalled))
		s.conns = make(map[*conn]struct{})
		s.counters = s.counterMemory()
		s.parties = fairshare.NewParties(s.newShares)
		s.startTime = time.Now()
		s.watchdog.Init()
		s.listeners = make(map[rdma.Listener]struct{})
		s.calls.max = maxServing
		if s.Waits { // a waiting handler occupies no thread; MaxInline bounds the calls
			s.calls.max = math.MaxInt
		}
		s.log = lograte.Logger(s.Log)
	})
	return s.err
}

func orDefault[T int | int64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// Check returns the error in s's fields that Serve would return. The fields
// must not be changed afterwards.
func (s *Server) Check() error { return s.init() }

func (s *Server) checkConfig() error {
	c := &s.cfg
	switch {
	case s.Handler == nil:
		return errors.New("rpcrdma: Server without a Handler")
	case c.inline < cmpriv.MinSize || c.inline > cmpriv.MaxSize:
		return fmt.Errorf("rpcrdma: inline size %d is not between %d and %d bytes", s.Inline, cmpriv.MinSize, cmpriv.MaxSize)
	case c.credits < 1 || c.credits > maxCredits:
		return fmt.Errorf("rpcrdma: %d credits are not between 1 and %d", s.Credits, maxCredits)
	case c.maxPayload < 1 || c.maxPayload > maxPayload:
		return fmt.Errorf("rpcrdma: payload of %d bytes is not between 1 and %d", s.MaxPayload, maxPayload)
	case c.maxMemory < c.largestCall():
		return fmt.Errorf("rpcrdma: memory of %d bytes is too small: one call can need %d", s.MaxMemory, c.largestCall())
	case c.maxInline < minMaxInline:
		return fmt.Errorf("rpcrdma: %d bytes for messages are below %d", s.MaxInline, minMaxInline)
	case c.maxConns < 1:
		return fmt.Errorf("rpcrdma: %d connections", s.MaxConns)
	}
	return nil
}
