package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// reach connects and mounts. It tries again while an attempt may succeed and
// time is left. With bg, it goes to the background after the first failure.
func (m *mountCommand) reach(ctx context.Context) (*session, *nfsclient.FS, error) {
	end := time.Now().Add(m.opts.Patience())
	pause := firstPause
	for {
		s, fs, err := m.attempt(ctx)
		left := time.Until(end)
		if err == nil || ctx.Err() != nil || !passing(err) || left <= 0 {
			return s, fs, err
		}
		if pause == firstPause {
			fmt.Fprintf(m.stderr, "%s: %v; trying again for %v\n", m.name, err, m.opts.Patience())
			if m.opts.Background {
				m.daemon.detach()
			}
		}
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		pause = min(2*pause, lastPause)
	}
}

// attempt connects and mounts once.
func (m *mountCommand) attempt(ctx context.Context) (*session, *nfsclient.FS, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.timeout, errTimeout)
	defer cancel()
	held := m.hold()
	s, err := m.connect(ctx, m.at.server, m.nextLine(held))
	if err != nil {
		return nil, nil, err
	}
	s.held = held
	fs, err := m.open(ctx, s)
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, fs, nil
}

// open makes the other connections, and mounts.
func (m *mountCommand) open(ctx context.Context, s *session) (*nfsclient.FS, error) {
	err := s.widen(ctx, m.opts.Connections, func() rpcrdma.ClientConfig { return m.nextLine(s.held) })
	if err != nil {
		return nil, err
	}
	m.up = s.up
	m.count(s.caller())
	s.nfs = nfsclient.New(m.counter, nfsclient.Config{
		Cred: &s.cred, ReadSize: m.opts.ReadSize, WriteSize: m.opts.WriteSize, Patience: math.MaxInt64,
	})
	return s.mountDir(ctx, m.at.path)
}

// passing reports whether a failed attempt may succeed later with nothing
// changed on this host, because the server or the network is not up yet.
func passing(err error) bool {
	var dns *net.DNSError
	var rejected *iwarp.RejectedError
	var search *nfsclient.SearchError
	if errors.As(err, &dns) && !dns.IsNotFound || errors.As(err, &rejected) || errors.As(err, &search) {
		return true
	}
	for _, cause := range []error{
		errTimeout, rpcrdma.ErrUnreachable, os.ErrDeadlineExceeded, context.DeadlineExceeded, rdma.ErrClosed,
		unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ETIMEDOUT, unix.EHOSTDOWN, unix.ENETDOWN,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return hungUp(err)
}
