package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// mountWithRetry connects and mounts. It retries while an attempt may succeed and time is
// left. With bg, it continues in the background after the first failure.
func (m *mountCommand) mountWithRetry(ctx context.Context) (*session, *nfsclient.FS, error) {
	end := time.Now().Add(m.opts.Patience())
	pause := firstPause
	for {
		s, fs, err := m.tryMount(ctx)
		left := time.Until(end)
		if err == nil || ctx.Err() != nil || !isTransient(err) || left <= 0 {
			return s, fs, err
		}
		if pause == firstPause {
			fmt.Fprintf(m.stderr, "%s: %v; retrying for %v\n", m.name, err, m.opts.Patience())
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

// tryMount connects and mounts. If the export requires Kerberos, it does so again without
// delegations.
func (m *mountCommand) tryMount(ctx context.Context) (*session, *nfsclient.FS, error) {
	s, fs, err := m.tryMountOnce(ctx)
	if err != nil || m.delegations == nil || !exports.Flavor(fs.Client().Flavor()).Kerberos() {
		return s, fs, err
	}
	s.close()
	m.usesKerberos = true
	return m.tryMountOnce(ctx)
}

func (m *mountCommand) tryMountOnce(ctx context.Context) (*session, *nfsclient.FS, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.timeout, errTimeout)
	defer cancel()
	cfg := m.clientConfig()
	cfg.Export = m.at.path
	s, err := m.connect(ctx, m.at.server, cfg)
	if err != nil {
		return nil, nil, err
	}
	m.isServerUp, m.serverAddr = s.client.Up, s.serverAddr
	fs, err := s.mountDir(ctx, m.at.path)
	if err == nil {
		m.mountd, err = s.mountServiceAddr(ctx)
	}
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, fs, nil
}

// isTransient reports whether a failed attempt may succeed later without a change on this
// host, because the server or the network is not up yet.
func isTransient(err error) bool {
	if isPermanent(err) {
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
	return isHangup(err)
}
