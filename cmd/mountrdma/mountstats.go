package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// The process that serves a mount sends its counters to its own user and to root, on a
// socket in addition to the one that umount uses.

// statsTimeout is the time limit for reading the counters.
const statsTimeout = 5 * time.Second

func statsSocketName(device string) string { return exitSocketName(device) + "/stats" }

// countCalls wraps a Caller, and counts its calls.
func (m *mountCommand) countCalls(next oncrpc.Caller) oncrpc.Caller {
	m.countingSince = time.Now()
	m.counter = rpcstats.NewCounter(next, rpcstats.Observed{
		Prog: nfs3.Program, Vers: nfs3.Version, Procs: nfs3.NumProc,
		HasStatus: func(proc uint32) bool { return proc != nfs3.ProcNull },
	})
	return m.counter
}

// serveStats serves the mount's counters until end is called.
func (m *mountCommand) serveStats(fs *nfsclient.FS) (end func()) {
	on, found, err := mountinfo.At(m.point)
	if err != nil || !found {
		return func() {} // unmounted already
	}
	l, err := net.Listen("unix", statsSocketName(on.Device))
	if err != nil {
		m.log.Warn("mountrdma mountstats will not find this mount", "err", err)
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed or unusable
			}
			if isTrustedPeer(c.(*net.UnixConn)) {
				_ = c.SetDeadline(time.Now().Add(statsTimeout))
				_, _ = io.WriteString(c, m.formatStats(fs, m.delegations, time.Now())) // an error means that the client has disconnected
			}
			c.Close()
		}
	}()
	return func() {
		l.Close()
		<-done
	}
}

func (a *app) newMountStats() *cobra.Command {
	return &cobra.Command{
		Use:   "mountstats MOUNTPOINT",
		Short: "Show a mount's counters in the format of /proc/self/mountstats",
		Long: `Show a mount's counters in the format that /proc/self/mountstats has for the
kernel's NFS mounts, for the programs that read that file:

    mountrdma mountstats /mnt >before; sleep 10; mountrdma mountstats /mnt >after
    mountstats --file after --since before /mnt

Counters that only the kernel has are 0: its events, and its cached reads and
writes. The line "delegation" is specific to this program: objects with a
delegation, delegations requested, granted, denied and recalled, and the accesses
that needed no call, or an atomic operation. Times are per complete call; queue is
0, and rtt equals execute. Byte counts include arguments and results, but no RPC
headers.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return errors.New("mountstats needs one mount point")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return showMountStats(args[0], a.stdout) },
	}
}

// showMountStats copies the counters from the process of a mount to w.
func showMountStats(name string, w io.Writer) error {
	m, err := findMount(name)
	if err != nil {
		return err
	}
	c, err := net.Dial("unix", statsSocketName(m.Device))
	if errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("no process responds for %s: the process that serves it has exited, or is in another network namespace", name)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if !isTrustedPeer(c.(*net.UnixConn)) {
		return fmt.Errorf("the process that responds for %s belongs to another user: run this command as that user or as root", name)
	}
	_ = c.SetDeadline(time.Now().Add(statsTimeout))
	n, err := io.Copy(w, c)
	if err == nil && n == 0 {
		err = errors.New("only the user who mounted it and root may read the counters")
	}
	return err
}
