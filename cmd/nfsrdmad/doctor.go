package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A finding is what doctor says about one thing.
type finding struct {
	grade  string // ok, warn or fail
	what   string
	remedy string // a command or a change; "" for ok
}

// A doctor looks at this host. Tests replace parts of it.
type doctor struct {
	exports     string // file
	listen, tcp string // addresses
	maxConns    int    // on RDMA
	portlist    string // file of the kernel's server
	status      string // file with this process's capabilities
	rpcbind     string // address
	running     func() bool
	limit       func() (files uint64, err error)
	clock       func() (state int, err error)
}

func newDoctor() *cobra.Command {
	d := doctor{
		portlist: "/proc/fs/nfsd/portlist", status: "/proc/self/status", rpcbind: "127.0.0.1:111",
		running: daemonAnswers, limit: openFiles, clock: func() (int, error) { return unix.Adjtimex(&unix.Timex{}) },
	}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps a daemon on this host from serving, and say how to mend it",
		Long: `Look for what keeps a daemon on this host from serving, as the user who runs the
command: the exports file and its directories, whether their file systems have file
handles and leases, the ports and who has them, rpcbind, capabilities, the limit of
open files, and the clock. Each line is ok, warn or fail; warn and fail come with
the remedy. The exit status is 1 if anything fails. Nothing is changed.`,
		Example: "  nfsrdmad doctor\n  nfsrdmad doctor --exports /etc/exports --tcp :3049",
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(cobra.NoArgs(cmd, args), cli.Within("--max-connections", int64(d.maxConns), 1, maxConns))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return report(cmd.OutOrStdout(), d.examine(cmd.Context()))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&d.exports, "exports", defaultExports, "the daemon's `FILE` of exports")
	f.StringVar(&d.listen, "listen", ":20049", "its `ADDR` for RPC-over-RDMA")
	f.StringVar(&d.tcp, "tcp", ":2049", "its `ADDR` for NFS over plain TCP; \"\" for none")
	f.IntVar(&d.maxConns, "max-connections", rpcrdma.DefaultMaxConns, "how many RDMA connections it may have")
	return cmd
}

// report prints the findings.
func report(out io.Writer, list []finding) error {
	failed := false
	for _, f := range list {
		failed = failed || f.grade == "fail"
		line := fmt.Sprintf("%-4s  %s", f.grade, f.what)
		if f.remedy != "" {
			line += ": " + f.remedy
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if failed {
		return cli.ErrReported
	}
	return nil
}

func (d *doctor) examine(ctx context.Context) (list []finding) {
	list = append(list, d.files()...)
	list = append(list, d.port("--listen", d.listen))
	if d.tcp != "" {
		list = append(list, d.port("--tcp", d.tcp))
	}
	return append(list, d.portmapper(ctx), d.capabilities(), d.openFiles(), d.time())
}

// port sees whether the daemon can listen, or does.
func (d *doctor) port(flag, addr string) finding {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		l.Close()
		return finding{"ok", addr + " is free for " + flag, ""}
	}
	if !errors.Is(err, unix.EADDRINUSE) {
		return finding{"fail", cli.ListenError(flag, addr, err, "").Error(), "see ip address"}
	}
	_, number, _ := net.SplitHostPort(addr)
	if kernelHas(d.portlist, number) { // a daemon that runs has others
		return finding{"fail", "Linux's NFS server has port " + number, "systemctl disable --now nfs-server, or another port with " + flag}
	}
	if d.running() {
		return finding{"ok", "a daemon is running, and " + addr + " is in use", ""}
	}
	return finding{"fail", cli.ListenError(flag, addr, err, "").Error(), "see who has it: ss -ltnp"}
}

// portmapper says how clients of version 3 can find the ports.
func (d *doctor) portmapper(ctx context.Context) finding {
	dialer := net.Dialer{Timeout: time.Second}
	c, err := dialer.DialContext(ctx, "tcp", d.rpcbind)
	if err != nil {
		return finding{"warn", "no rpcbind answers on this host", "for version 3 without port=: --portmap :111, or install rpcbind and use --register"}
	}
	c.Close()
	return finding{"ok", "rpcbind answers: --register makes the ports known to clients of version 3", ""}
}

func (d *doctor) openFiles() finding {
	n, err := d.limit()
	conns, enough := filesFor(d.maxConns, d.tcp)
	switch {
	case err != nil:
		return finding{"warn", "the limit of open files is not known: " + err.Error(), "see ulimit -Hn"}
	case n < enough:
		return finding{"warn", fmt.Sprintf("a process may have %d files open: %d connections take one each, and half of all are for the exports' files", n, conns), fmt.Sprintf("ulimit -Hn %d, or LimitNOFILE= of the unit", enough)}
	}
	return finding{"ok", fmt.Sprintf("a process may have %d files open", n), ""}
}

func (d *doctor) time() finding {
	state, err := d.clock()
	switch {
	case err != nil:
		return finding{"warn", "the clock's state is not known: " + err.Error(), "see timedatectl"}
	case state == unix.TIME_ERROR:
		return finding{"warn", "the clock is not synchronized: Kerberos refuses clocks 5 minutes apart, and certificates have dates", "timedatectl set-ntp true"}
	}
	return finding{"ok", "the clock is synchronized", ""}
}

// daemonAnswers reports whether a daemon has the control socket of this user.
func daemonAnswers() bool {
	c, err := net.Dial("unix", defaultControl())
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// kernelHas reports whether Linux's server listens on a port.
func kernelHas(portlist, number string) bool {
	text, err := os.ReadFile(portlist)
	return err == nil && listed(string(text), number)
}
