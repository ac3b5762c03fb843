package main

import (
	"context"
	"fmt"
	"math"
	"os/signal"
	"time"

	"github.com/nfsrdma/nfsrdma"
	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
	"golang.org/x/sys/unix"
)

// run mounts, in the background unless m.foreground is set. In the background, both the
// called process and the daemon execute run.
func (m *mountCommand) run(ctx context.Context) error {
	if !m.foreground {
		if m.daemon = inheritDaemon(); m.daemon == nil {
			return startDaemon(ctx)
		}
	}
	m.log = m.newLog()
	ctx, stop := signal.NotifyContext(ctx, unix.SIGHUP) // sent when the terminal closes
	defer stop()
	err := m.mountAndServe(ctx)
	m.closeExitSocket()
	if err != nil && m.daemon != nil && m.daemon.isDetached() {
		m.log.Error("cannot mount", "source", m.source, "on", m.point, "err", err)
	}
	return err
}

// mountAndServe mounts, and returns after the file system was unmounted.
func (m *mountCommand) mountAndServe(ctx context.Context) error {
	if err := m.checkPoint(); err != nil {
		return err
	}
	if err := m.checkFUSE(); err != nil {
		return err
	}
	s, fs, err := m.mountWithRetry(ctx)
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
	mount, err := fusefs.New(m.fuseConfig(s, fs))
	if err != nil {
		return err
	}
	raiseProcessors() // after New: go-fuse starts as many readers as GOMAXPROCS, each with 1 MiB
	m.openExitSocket()
	defer m.serveStats(fs)()
	m.reportMount(s, fs)
	s.client.CloseMOUNT() // otherwise the server's mountd would close it later
	m.daemon.detach()
	defer m.listenNotices(s)()
	unmounted := context.AfterFunc(ctx, func() { m.unmountOnSignal(mount) })
	mount.Wait()
	unmounted()
	m.log.Info("unmounted", "point", m.point)
	return nil
}

// unmountOnSignal unmounts after a signal. A busy mount is detached and served until its
// last user closes it; a second signal terminates the program at once.
func (m *mountCommand) unmountOnSignal(mount *fusefs.Mount) {
	err := mount.Unmount()
	if err == nil {
		return
	}
	m.log.Warn("file system busy; serving it until the last program has closed its files", "point", m.point, "err", err)
	if err := detachMount(m.point, unix.MNT_DETACH); err != nil {
		m.log.Error("cannot unmount", "point", m.point, "err", err)
	}
}

// lookupCaches translates the values of lookupcache for package fusefs.
var lookupCaches = map[mountopt.Lookup]fusefs.LookupCache{
	mountopt.LookupAll: fusefs.LookupAll, mountopt.LookupPositive: fusefs.LookupPositive, mountopt.LookupNone: fusefs.LookupNone,
}

func (m *mountCommand) fuseConfig(s *session, fs *nfsclient.FS) fusefs.Config {
	o, seconds := m.opts, func(n int) time.Duration { return time.Duration(n) * time.Second }
	return fusefs.Config{
		Client: fs.Client(), FS: fs,
		Source: m.source, Point: m.point,
		ReadOnly: o.ReadOnly, NoSUID: o.NoSUID, NoDev: o.NoDev, NoExec: o.NoExec,
		AllowOther: o.AllowOther || isRoot(), Direct: isRoot(),
		Sync:   o.NoAC || o.Sync,
		RegMin: seconds(o.ACRegMin), RegMax: seconds(max(o.ACRegMin, o.ACRegMax)),
		DirMin: seconds(o.ACDirMin), DirMax: seconds(max(o.ACDirMin, o.ACDirMax)),
		Lookup: lookupCaches[o.Lookup], Held: m.delegations, Up: m.isServerUp, Log: m.log,
		Locks: m.locks, LocalPOSIX: o.LocalPOSIX, LocalFlock: o.LocalFlock,
	}
}

// reportMount reports a successful mount.
func (m *mountCommand) reportMount(s *session, fs *nfsclient.FS) {
	way := "TCP"
	if s.rdma != nil {
		send, _ := s.rdma.Conn().Thresholds()
		way = fmt.Sprintf("inline %d, credits %d, CRC %s", send, s.rdma.Conn().Credits(), onOff(s.rdmaConn().Params().CRC))
	}
	words := fmt.Sprintf("mounted %s on %s: rsize %d, wsize %d, %s, MOUNT at %s, %s",
		m.source, m.point, fs.ReadSize(), fs.WriteSize(), way, m.mountd, m.describeLocks())
	if m.daemon != nil {
		m.log.Info(words)
	}
	if m.verbose || m.foreground {
		fmt.Fprintln(m.stdout, words)
	}
}

// newDelegations returns the set of delegations for a mount, or nil if the mount must not
// have any: a mount that caches nothing does not need delegations, Kerberos does not protect
// their messages, and TCP does not carry them.
func (m *mountCommand) newDelegations() *delegclient.Set {
	if o := m.opts; m.standardsOnly || m.usesKerberos || m.overTCP() || o.NoDeleg || o.NoAC || o.Sync {
		return nil
	}
	return delegclient.New(delegclient.Config{Drop: fusefs.Drop, Log: m.log})
}

// clientConfig returns the client configuration for one attempt to mount.
func (m *mountCommand) clientConfig() nfsrdma.ClientConfig {
	cfg := m.commandConfig()
	m.delegations = m.newDelegations()
	cfg.Connections, cfg.Delegations, cfg.Wrap = m.opts.Connections, m.delegations, m.countCalls
	cfg.Silence, cfg.GiveUp, cfg.Log = m.opts.Silence(), m.opts.GiveUp(), m.log
	cfg.NFS = nfsclient.Config{ReadSize: m.opts.ReadSize, WriteSize: m.opts.WriteSize, Patience: math.MaxInt64}
	return cfg
}

// mountLikeConfig returns a command's configuration with all extensions that a mount offers
// to its server. No delegation is ever acquired.
func (a *app) mountLikeConfig() nfsrdma.ClientConfig {
	cfg := a.commandConfig()
	if !a.standardsOnly && !a.overTCP() {
		cfg.Delegations = delegclient.New(delegclient.Config{})
	}
	return cfg
}
