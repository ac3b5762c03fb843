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

// The process that serves a mount sends its counters to its user and to root,
// at a socket beside the one that umount uses.

// statsTime bounds how long a client may take to read the counters.
const statsTime = 5 * time.Second

func statsOf(device string) string { return exitSocket(device) + "/stats" }

// count returns a Caller that counts the calls to a server.
func (m *mountCommand) count(next oncrpc.Caller) oncrpc.Caller {
	m.since = time.Now()
	m.counter = rpcstats.NewCounter(next, rpcstats.Observed{
		Prog: nfs3.Program, Vers: nfs3.Version, Procs: nfs3.NumProc,
		HasStatus: func(proc uint32) bool { return proc != nfs3.ProcNull },
	})
	return m.counter
}

// openStats answers requests for the mount's counters until end is called.
func (m *mountCommand) openStats(fs *nfsclient.FS) (end func()) {
	on, found, err := mountinfo.At(m.point)
	if err != nil || !found {
		return func() {} // unmounted already
	}
	l, err := net.Listen("unix", statsOf(on.Device))
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
			if trusted(c.(*net.UnixConn)) {
				_ = c.SetDeadline(time.Now().Add(statsTime))
				_, _ = io.WriteString(c, m.stats(fs, m.held, time.Now())) // an error means that the client has gone
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
		Short: "Show the counters of a mount, in the form of /proc/self/mountstats",
		Long: `Show the counters of a mount, in the form of /proc/self/mountstats for the
kernel's NFS mounts, for the programs that read that file:

    mountrdma mountstats /mnt >before; sleep 10; mountrdma mountstats /mnt >after
    mountstats --file after --since before /mnt

Figures that only the kernel has are 0: its events, and its cached reads and
writes. The line "delegation" is this program's own: objects with a delegation,
delegations requested, granted, refused and recalled, and the uses that took no
call, or an atomic operation. Times are of whole calls; queue is 0, and rtt is
execute. Bytes are of arguments and results, without the headers of RPC.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return errors.New("mountstats needs one mount point")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return showMountStats(args[0], a.stdout) },
	}
}

// showMountStats asks the process of a mount.
func showMountStats(name string, w io.Writer) error {
	m, err := findMount(name)
	if err != nil {
		return err
	}
	c, err := net.Dial("unix", statsOf(m.Device))
	if errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("no process answers for %s: the one that serves it has ended, or is in another network namespace", name)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if !trusted(c.(*net.UnixConn)) {
		return fmt.Errorf("the process that answers for %s is another user's: run this as that user or as root", name)
	}
	_ = c.SetDeadline(time.Now().Add(statsTime))
	n, err := io.Copy(w, c)
	if err == nil && n == 0 {
		err = errors.New("only the user of the mount and root may read its counters")
	}
	return err
}
