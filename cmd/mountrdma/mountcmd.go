package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/nlmclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/spf13/cobra"
)

// helperName is the name under which mount(8) calls the program.
const helperName = "mount.nfsrdma"

// Exit statuses that mount(8) expects.
const (
	exitHelperUsage = 1
	exitHelperError = 32
)

// mountCommand is a mount described by the command line.
type mountCommand struct {
	*app
	name    string // program name in messages
	lists   []string
	sloppy  bool
	verbose bool
	fake    bool // everything except the mount

	foreground bool

	source        string // unchanged: mount(8) compares it with fstab
	at            location
	point         string
	opts          *mountopt.Options
	mountd        string            // address of the MOUNT service
	isServerUp    func() bool       // the server responds
	serverAddr    func() string     // address of the server that serves
	delegations   *delegclient.Set  // delegations; nil: none
	usesKerberos  bool              // the export requires Kerberos, which does not protect delegations
	locks         *nlmclient.Client // nil: locks hold on this host only
	counter       *rpcstats.Counter // counts its calls
	countingSince time.Time         // when counting started
	log           *slog.Logger
	daemon        *daemon      // nil: in the foreground
	exitListener  net.Listener // nil before the mount, or if umount cannot wait for this process
}

// addMountCommand makes the root command mount if it has two operands.
func (a *app) addMountCommand(root *cobra.Command) *mountCommand {
	m := &mountCommand{app: a, name: root.Name()}
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && !isURL(args[0]) {
			if len(args) > 1 && strings.HasPrefix(args[1], "/") && len(suggestCommands(cmd, args[0])) == 0 {
				return missingColon(args)
			}
			return unknownCommand(cmd, args[0])
		}
		return m.checkArgs(args)
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if m.point == "" {
			return cmd.Help()
		}
		return m.run(cmd.Context())
	}
	root.Long += "\n\n" + a.mountHelp()
	root.Flags().BoolVar(&m.foreground, "foreground", false, "mount: stay in the foreground, and log to standard error")
	m.addFlags(root)
	return m
}

func (m *mountCommand) addFlags(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.ValidArgsFunction = m.completeMount
	cmd.Flags().StringArrayVarP(&m.lists, "options", "o", nil, "mount: options, a comma-separated `LIST`")
	cmd.Flags().BoolVarP(&m.verbose, "verbose", "v", false, "mount: report the settings negotiated with the server, and log details for diagnosis")
	_ = cmd.RegisterFlagCompletionFunc("options", m.completeOptions) // fails only for a flag that is missing
}

// suggestCommands returns the commands that a word may mean.
func suggestCommands(cmd *cobra.Command, word string) []string {
	cmd.SuggestionsMinimumDistance = 2
	return cmd.SuggestionsFor(word)
}

// unknownCommand returns cobra's error for an unknown command, on one line.
func unknownCommand(cmd *cobra.Command, word string) error {
	near := ""
	if words := suggestCommands(cmd, word); len(words) > 0 {
		near = "; did you mean " + strings.Join(words, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q%s", word, cmd.CommandPath(), near)
}

// missingColon returns the error for a server and a directory that are two words.
func missingColon(args []string) error {
	if len(args) == 2 {
		return fmt.Errorf("%q is not a mount source: write %s:/EXPORT %s", args[0], args[0], args[1])
	}
	return fmt.Errorf("%q is not a mount source: write %s:%s, with a colon and as one word", args[0], args[0], args[1])
}

// runHelper executes the program as the helper that mount(8) calls.
func runHelper(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := newApp(stdout, stderr)
	defer a.closeSessions()
	cmd, _ := a.newMountHelper()
	switch status := cli.Run(ctx, cmd, args, stdout, stderr); status {
	case cli.ExitUsage:
		return exitHelperUsage
	case cli.ExitError:
		return exitHelperError
	default:
		return status
	}
}

func (a *app) newMountHelper() (*cobra.Command, *mountCommand) {
	m := &mountCommand{app: a, name: helperName}
	cmd := &cobra.Command{
		Use:     helperName + " SERVER:/EXPORT MOUNTPOINT [-sfnv] [-o OPTIONS]",
		Short:   "Mount an NFS server's directory over RDMA, for mount(8)",
		Example: "  mount -t nfsrdma server:/data /mnt\n  echo 'server:/data /mnt nfsrdma ro,_netdev 0 0' >>/etc/fstab",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errNoOperands
			}
			return m.checkArgs(args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd.Context()) },
	}
	m.addFlags(cmd)
	a.addFlags(cmd.Flags())
	cmd.Long = cmd.Short + ".\n\n" + a.mountHelp()
	f := cmd.Flags()
	var ignored bool
	var kind string
	f.BoolVarP(&m.sloppy, "sloppy", "s", false, "ignore unknown options")
	f.BoolVarP(&m.fake, "fake", "f", false, "do everything except the mount itself")
	f.BoolVarP(&ignored, "no-mtab", "n", false, "has no effect: mtab is not written")
	f.StringVarP(&kind, "types", "t", "", "has no effect: passed by mount(8)")
	return cmd, m
}

// mountHelp returns the help about mounting.
func (a *app) mountHelp() string {
	return `The source is SERVER:/EXPORT, [IPv6]:/EXPORT or a URL; EXPORT may be a directory
below an export. SERVER may be a list: a,b:/EXPORT or nfs://a,b:20050/EXPORT are
up to 16 hosts of one file system of which one serves at a time. All of them are
asked at once, and the first that serves the export is used; they are asked again
when the connection is lost or the server does not respond. The program stays in
the background and serves the mount until it is unmounted or the program receives
SIGTERM or SIGINT. Ordinary users need fusermount3 (Debian: fuse3). Options, as in
nfs(5):

` + a.mountOptions().Help()
}

var errNoOperands = errors.New("a mount needs a source and a mount point: SERVER:/EXPORT MOUNTPOINT")

// mountOptions returns the default -o options, which also set some of the flags.
func (a *app) mountOptions() *mountopt.Options {
	return mountopt.New(mountopt.Flags{
		CRC: &a.crc, Markers: &a.markers, NoExtensions: &a.standardsOnly, Inline: &a.inline, Credits: &a.credits,
		Proto: &a.proto, ClearMOUNT: &a.clearMount, Sec: &a.sec, Keytab: &a.keytab,
		Xprtsec: &a.xprtsec, TLSCert: &a.tls.Cert, TLSKey: &a.tls.Key, TLSCA: &a.tls.CA, TLSCRL: &a.tls.CRL, ALPN: &a.alpn,
		TLSKernel: &a.kernelTLS,
	})
}

// checkArgs parses the operands and options. No arguments at all mean help.
func (m *mountCommand) checkArgs(args []string) (err error) {
	if len(args) == 0 {
		return nil
	}
	if len(args) != 2 || args[1] == "" {
		return errNoOperands
	}
	m.source, m.point, m.forMount = args[0], args[1], true
	if err := m.parseOptions(); err != nil {
		return err
	}
	if m.at, err = parseURL(m.source, m.overTCP()); err != nil {
		return err
	}
	if err := m.applyOptions(); err != nil {
		return err
	}
	if m.uid >= 0 || m.gid >= 0 {
		return errors.New("--uid and --gid are not for mounts, where each program acts as its own user")
	}
	return m.checkFlags()
}

// parseOptions parses the lists of options.
func (m *mountCommand) parseOptions() error {
	m.opts = m.mountOptions()
	for _, list := range m.lists {
		if err := m.opts.Parse(list, m.sloppy); err != nil {
			return err
		}
	}
	return nil
}

// applyOptions overrides parts of the operand by options.
func (m *mountCommand) applyOptions() error {
	if m.opts.Port != 0 {
		if err := m.at.setPort(strconv.Itoa(m.opts.Port)); err != nil {
			return err
		}
	}
	if m.opts.MountPort != 0 {
		m.at.mountPort = m.opts.MountPort
	}
	if m.opts.MountHost != "" {
		m.at.mountHost = m.opts.MountHost
	}
	return m.at.checkList()
}

// mountError returns the error for a failed MOUNT call, except if the server denies the
// mount, which noExportError explains.
func mountError(ctx context.Context, addr string, err error) error {
	var search *nfsclient.SearchError
	var flavors *nfsclient.FlavorError
	e := &stepError{at: addr, step: "MOUNT", err: err}
	switch {
	case isCanceled(ctx):
		return context.Cause(ctx)
	case isConnClosed(err):
		return lostError(addr, err)
	case errors.As(err, &search):
		return fmt.Errorf("%s: MOUNT: %w", addr, search) // names its own remedy
	case isTimeout(ctx, err):
		e.what, e.remedy = "the service does not respond", "check whether the server's mountd hangs, and restart it"
	case errors.Is(err, rpcmsg.AuthTooWeak), errors.As(err, &flavors) && flavors.Cause != nil:
		e.what = err.Error() // names its own remedy
	case errors.Is(err, rpcmsg.AuthBadCred):
		e.what, e.remedy = err.Error(), "check whether the server's exports list this host"
	case flavors != nil:
		e.what, e.remedy = err.Error(), "mount with sec="+exports.Flavor(flavors.Wanted[0]).String()
	default:
		e.what, e.remedy = err.Error(), "see the log of the server's mountd"
	}
	return e
}
