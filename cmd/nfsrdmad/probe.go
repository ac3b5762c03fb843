package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/probe"
)

func newProbeCommand() *cobra.Command {
	var o probe.Options
	cmd := &cobra.Command{
		Use:   "probe DIR",
		Short: "Find out whether two hosts that share a file system can serve it in turn",
		Long: `Find out whether two hosts that share a file system can serve it in turn. Run the
command on both hosts, for the same directory of the file system, which only this
user can write. Both print the same report: what holds between the hosts, and what
follows. Each line is ok, note or fail. The exit status is 1 if anything fails. The
command leaves nothing in DIR.

--late also tests whether the file system fences a host that has lost its locks, or
executes its late writes. The host that comes first is cut off while a write waits,
the other takes its lock and writes, and then the first is restored. To cut it off,
the command stops the process that serves the mount, if exactly one process does
(FUSE), executes --cut and --restore, or asks you to do it. The host is restored also
if the command is killed. Nothing else should use the mount during the test: a file
system that fences makes the mount of the first host unusable. If the test passes,
the other host writes DIR/fencing.json, which "serve --standby" reads from its state
directory; otherwise it removes that file.`,
		Example: "  nfsrdmad probe /mnt/shared/.nfsrdma\n  nfsrdmad probe --late /mnt/shared/.nfsrdma/web",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(1)(cmd, args); err != nil {
				return errors.New("probe needs a directory: nfsrdmad probe DIR")
			}
			if (o.Cut == "") != (o.Restore == "") || o.Cut != "" && !o.Late {
				return errors.New("--cut and --restore are for --late, and need each other")
			}
			return errors.Join(
				cli.CheckRange("--silence", o.Silence, time.Second, time.Hour),
				cli.CheckRange("--wait", o.Wait, time.Second, 24*time.Hour),
			)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dir = args[0]
			if o.Host == "" {
				o.Host = hostName()
			}
			o.In, o.Out, o.Err = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			self, err := os.Executable()
			if err != nil {
				return err
			}
			o.Guard, o.Worker = []string{self, guardCommand}, []string{self, workerCommand}
			if err = probe.Run(cmd.Context(), &o); errors.Is(err, probe.ErrUnusable) {
				fmt.Fprintln(o.Err, err)
				return cli.ErrReported
			}
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&o.Wait, "wait", 5*time.Minute, "the `TIME` to wait for the other host")
	f.StringVar(&o.Host, "name", "", "this host's `NAME` in the report (default: the host name)")
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	f.BoolVar(&o.Late, "late", false, "test whether the file system fences")
	f.DurationVar(&o.Silence, "silence", 150*time.Second, "with --late, the `TIME` for which the first host is cut off")
	f.StringVar(&o.Cut, "cut", "", "with --late, the `CMD` that cuts this host off; executed without a shell")
	f.StringVar(&o.Restore, "restore", "", "with --late, the `CMD` that restores this host")
	return cmd
}

// The hidden commands of probe: see probe.RunGuard and probe.RunWorker.
const (
	guardCommand  = "probe-guard"
	workerCommand = "probe-worker"
)

func newHiddenCommand(name string, run func(args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return run(args) },
	}
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}
