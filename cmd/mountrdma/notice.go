package main

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma/roce"
)

// noticeRetryDelay is the time between attempts to listen for notices: the port may be in
// use by another mount of this host, which may release it.
const noticeRetryDelay = time.Minute

// listenNotices makes a mount reconnect as soon as its server announces a restart over RoCE,
// until end is called. Nothing depends on notices, so failures are only logged.
func (m *mountCommand) listenNotices(s *session) (end func()) {
	if !m.opts.Notice {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	restarted := func() {
		m.log.Debug("the server announced a restart", "server", s.serverAddr())
		for _, l := range s.client.Lines() {
			l.Hint()
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			err := listenServer(ctx, s, m.opts.NoticeFrom, restarted, m.log)
			if ctx.Err() == nil {
				m.log.Debug("cannot receive restart notices", "server", s.serverAddr(), "err", err)
			}
			select {
			case <-time.After(noticeRetryDelay):
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// listenServer listens for notices from a session's server at the address local, or if
// local is invalid, at the address that routes to the server.
func listenServer(ctx context.Context, s *session, local netip.Addr, restarted func(), log *slog.Logger) error {
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
	log.Debug("listening for restart notices", "server", server, "at", local)
	return h.port.Attend(ctx, server, restarted)
}
