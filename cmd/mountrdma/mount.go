package main

import (
	"context"
	"fmt"
	"math"
	"os/signal"
	"time"

	"github.com/nfsrdma/nfsrdma"
	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/fusefs"
	"github.com/nfsrdma/nfsrdma/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"golang.org/x/sys/unix"
)

// run mounts, in the background unless m.foreground is set. In the background,
// run is executed twice: by the called process and by the daemon.
func (m *mountCommand) run(ctx context.Context) error {
	if !m.foreground {
		if m.daemon = inherited(); m.daemon == nil {
			return startDaemon(ctx)
		}
	}
	m.log = m.newLog()
	ctx, stop := signal.NotifyContext(ctx, unix.SIGHUP) // the terminal closes
	defer stop()
	err := m.serve(ctx)
	m.closeExitSocket()
	if err != nil && m.daemon != nil && m.daemon.detached() {
		m.log.Error("not mounted", "source", m.source, "on", m.point, "err", err)
	}
	return err
}

// serve mounts, and returns after the unmount.
func (m *mountCommand) serve(ctx context.Context) error {
	if err := m.checkPoint(); err != nil {
		return err
	}
	if err := m.checkFUSE(); err != nil {
		return err
	}
	s, fs, err := m.reach(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if m.fake {
		return nil
	}
	if m.locks = m.findLocks(ctx, s); m.locks != nil {
		defer m.locks.Close()
	}
	mount, err := fusefs.New(m.config(s, fs))
	if err != nil {
		return err
	}
	raiseProcessors() // after New: go-fuse lets as many readers wait as there are, each with 1 MiB
	m.openExitSocket()
	defer m.openStats(fs)()
	m.announce(s, fs)
	s.client.CloseMOUNT() // the server's mountd would close it at some time
	m.daemon.detach()
	defer m.listenNotices(s)()
	unmounted := context.AfterFunc(ctx, func() { m.unmount(mount) })
	mount.Wait()
	unmounted()
	m.log.Info("unmounted", "point", m.point)
	return nil
}

// unmount ends a mount after a signal. A mount that is in use is served until
// its last use ends; a second signal ends the program at once.
func (m *mountCommand) unmount(mount *fusefs.Mount) {
	err := mount.Unmount()
	if err == nil {
		return
	}
	m.log.Warn("in use: it is served until that ends", "point", m.point, "err", err)
	if err := detachMount(m.point, unix.MNT_DETACH); err != nil {
		m.log.Error("cannot be unmounted", "point", m.point, "err", err)
	}
}

// lookupCaches are the values of lookupcache for package fusefs.
var lookupCaches = map[mountopt.Lookup]fusefs.LookupCache{
	mountopt.LookupAll: fusefs.LookupAll, mountopt.LookupPositive: fusefs.LookupPositive, mountopt.LookupNone: fusefs.LookupNone,
}

func (m *mountCommand) config(s *session, fs *nfsclient.FS) fusefs.Config {
	o, seconds := m.opts, func(n int) time.Duration { return time.Duration(n) * time.Second }
	return fusefs.Config{
		Client: fs.Client(), FS: fs,
		Source: m.source, Point: m.point,
		ReadOnly: o.ReadOnly, NoSUID: o.NoSUID, NoDev: o.NoDev, NoExec: o.NoExec,
		AllowOther: o.AllowOther || isRoot(), Direct: isRoot(),
		Sync:   o.NoAC || o.Sync,
		RegMin: seconds(o.ACRegMin), RegMax: seconds(max(o.ACRegMin, o.ACRegMax)),
		DirMin: seconds(o.ACDirMin), DirMax: seconds(max(o.ACDirMin, o.ACDirMax)),
		Lookup: lookupCaches[o.Lookup], Held: m.held, Up: m.up, Log: m.log,
		Locks: m.locks, LocalPOSIX: o.LocalPOSIX, LocalFlock: o.LocalFlock,
	}
}

// announce reports a successful mount.
func (m *mountCommand) announce(s *session, fs *nfsclient.FS) {
	way := "TCP"
	if s.rdma != nil {
		send, _ := s.rdma.Conn().Thresholds()
		way = fmt.Sprintf("inline %d, credits %d, CRC %s", send, s.rdma.Conn().Credits(), onOff(s.conn().Params().CRC))
	}
	words := fmt.Sprintf("mounted %s on %s: rsize %d, wsize %d, %s, MOUNT at %s, %s",
		m.source, m.point, fs.ReadSize(), fs.WriteSize(), way, m.mountd, m.locksAt())
	if m.daemon != nil {
		m.log.Info(words)
	}
	if m.verbose || m.foreground {
		fmt.Fprintln(m.stdout, words)
	}
}

// hold returns the set of delegations for a mount, or nil if the mount must not
// have any. A mount that caches nothing has no use for delegations, Kerberos does
// not protect their messages, and TCP does not carry them.
func (m *mountCommand) hold() *delegclient.Set {
	if o := m.opts; m.bare || m.guarded || m.overTCP() || o.NoDeleg || o.NoAC || o.Sync {
		return nil
	}
	return delegclient.New(delegclient.Config{Drop: fusefs.Drop, Log: m.log})
}

// client returns the configuration of one attempt to mount.
func (m *mountCommand) client() nfsrdma.ClientConfig {
	cfg := m.brief()
	m.held = m.hold()
	cfg.Connections, cfg.Delegations, cfg.Wrap = m.opts.Connections, m.held, m.count
	cfg.Silence, cfg.GiveUp, cfg.Log = m.opts.Silence(), m.opts.GiveUp(), m.log
	cfg.NFS = nfsclient.Config{ReadSize: m.opts.ReadSize, WriteSize: m.opts.WriteSize, Patience: math.MaxInt64}
	return cfg
}

// asMount returns brief with all extensions that a mount offers its server. No
// delegation is ever taken.
func (a *app) asMount() nfsrdma.ClientConfig {
	cfg := a.brief()
	if !a.bare && !a.overTCP() {
		cfg.Delegations = delegclient.New(delegclient.Config{})
	}
	return cfg
}
