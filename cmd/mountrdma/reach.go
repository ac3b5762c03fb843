package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
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

// attempt connects and mounts. If the export chooses Kerberos, it does so again,
// without delegations.
func (m *mountCommand) attempt(ctx context.Context) (*session, *nfsclient.FS, error) {
	s, fs, err := m.attemptOnce(ctx)
	if err != nil || m.held == nil || !exports.Flavor(fs.Client().Flavor()).Kerberos() {
		return s, fs, err
	}
	s.close()
	m.guarded = true
	return m.attemptOnce(ctx)
}

func (m *mountCommand) attemptOnce(ctx context.Context) (*session, *nfsclient.FS, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.timeout, errTimeout)
	defer cancel()
	s, err := m.connect(ctx, m.at.server, m.client())
	if err != nil {
		return nil, nil, err
	}
	m.up = s.client.Up
	fs, err := s.mountDir(ctx, m.at.path)
	if err == nil {
		m.mountd, err = s.mountAt(ctx)
	}
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, fs, nil
}

// passing reports whether a failed attempt may succeed later with nothing
// changed on this host, because the server or the network is not up yet.
func passing(err error) bool {
	if final(err) {
		return false
	}
	var dns *net.DNSError
	var rejected *iwarp.RejectedError
	var search *nfsclient.SearchError
	if errors.As(err, &dns) && !dns.IsNotFound || errors.As(err, &rejected) || errors.As(err, &search) {
		return true
	}
	for _, cause := range []error{
		errTimeout, oncrpc.ErrUnreachable, os.ErrDeadlineExceeded, context.DeadlineExceeded, rdma.ErrClosed, oncrpc.ErrClosed,
		unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ETIMEDOUT, unix.EHOSTDOWN, unix.ENETDOWN,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return hungUp(err)
}
