package main

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/roce"
)

// noticePause is the time between attempts to listen for notices: another mount
// of this host may have had the port and released it since.
const noticePause = time.Minute

// listenNotices makes a mount reconnect as soon as its server announces over
// RoCE that it has restarted, until end is called. Nothing depends on notices,
// so failures are only logged.
func (m *mountCommand) listenNotices(s *session) (end func()) {
	if !m.opts.Notice {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	restarted := func() {
		m.log.Debug("the server says that it has been restarted", "server", s.at.addr())
		for _, l := range s.client.Lines() {
			l.Hint()
		}
	}
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			err := attendServer(ctx, s, m.opts.NoticeFrom, restarted, m.log)
			if ctx.Err() == nil {
				m.log.Debug("notices of restarts are not received", "server", s.at.addr(), "err", err)
			}
			select {
			case <-time.After(noticePause):
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// attendServer listens to the server of a session at the address local, or if
// local is invalid, at the address that routes to the server.
func attendServer(ctx context.Context, s *session, local netip.Addr, restarted func(), log *slog.Logger) error {
	at, err := netip.ParseAddrPort(s.netConn().RemoteAddr().String())
	if err != nil {
		return err
	}
	server := at.Addr().Unmap()
	if !local.IsValid() {
		if local, err = roce.LocalAddr(server); err != nil {
			return err
		}
	}
	h, err := openRoCE(local)
	if err != nil {
		return err
	}
	defer h.close()
	log.Debug("listening for notices of restarts", "server", server, "at", local)
	return h.port.Attend(ctx, server, restarted)
}
