package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// Limits of flags; those of --inline are RFC 8797's.
const (
	maxCredits = 4096    // each costs a receive buffer, on every connection
	minPayload = 4 << 10 // bytes: a page, so that clients can work
	maxPayload = 4 << 20 // bytes: the size of a pooled buffer
)

// serveOptions are the flags of serve.
type serveOptions struct {
	readOnly     bool
	clientWords  []string
	noRootSquash bool
	exclusive    bool
	exportsFile  string
	listen       string
	tcp          string
	portmap      string
	register     bool
	manageGIDs   bool
	inline       cli.Size
	credits      int
	maxPayload   cli.Size
	crc          cli.Choice
	markers      cli.Choice
	noExtensions bool
	lease        time.Duration
	state        string
	record       string
	recordSize   cli.Size
	logLevel     cli.Choice
	logFormat    cli.Choice

	opsOptions
	ops operations

	// Parsed from the words above.
	exports []export
	clients []netip.Prefix

	// Set when the daemon runs.
	key    [keyLen]byte // of file handles
	names  exports.Names
	groups func(context.Context, netip.Addr, uint32) ([]uint32, error) // of users; nil: the groups in the calls
}

func newServe() *cobra.Command {
	o := serveOptions{
		inline:     4 << 10,
		credits:    128,
		maxPayload: 1 << 20,
		recordSize: 256 << 10,
		crc:        cli.NewChoice("auto", "auto", "on", "off"),
		markers:    cli.NewChoice("off", "off", "on"),
		logLevel:   cli.NewChoice("info", "debug", "info", "warn", "error"),
		logFormat:  cli.NewChoice("text", "text", "json"),
	}
	cmd := &cobra.Command{
		Use:   "serve [flags] {DIR[=/EXPORT]... | --exports FILE}",
		Short: "Serve directories",
		Long: `Serve directories over NFS version 3, on RPC-over-RDMA and on TCP at the same
time, until SIGTERM or SIGINT; then calls under way are finished, for 10 s at
most, and the exit status is 0. A second signal ends it at once.

Each DIR is exported under its absolute path, or as /EXPORT. The last "=/" of an
argument separates the two. In the place of DIR, mem: or mem:SIZE is a file system in
memory for trying out, of 1GiB or SIZE, which ends with the daemon.

Without DIR, what the FILE of --exports has is exported. It is a file of exports(5), as
for Linux's own server; nfsrdmad exports check says what one means. At SIGHUP the
file is read again: exports that stay are not disturbed, and where the new file is
wrong, nothing changes and the log says why.

With DIR and without --clients, every host that reaches the ports may read and write what the
directory's modes allow to the user and group that the host claims (AUTH_SYS).
Root of a client becomes nobody, unless --no-root-squash is given. As root, the
daemon lets the kernel check each call against its caller's user and groups; as
an ordinary user it does everything in that user's name.

Clients that are mountrdma may keep what they have cached until the daemon asks for
it back. --exclusive is a promise, kept by nobody but you: no process of this host and
no other server changes what is in the directories. Then names and attributes may be
kept too; without it the data of files alone, which the kernel tells of. Nobody else
can change mem:, so it needs no promise.

Once it accepts connections, it prints one line on standard output:

    ready rdma=ADDR tcp=ADDR exports=/EXPORT,...

With --record, each RDMA connection keeps what it sent and received last, and it
is written to DIR/PEER-TIME.pcap, which Wireshark opens, where a Terminate of
either end closes the connection (not more than one a second, and none while DIR
has 100), and for all connections at SIGUSR1. The files hold what clients read
and write.

Linux mounts an export by (MOUNT goes over TCP)

    mount -t nfs -o vers=3,proto=rdma,port=20049,mountproto=tcp,mountport=2049,nolock SERVER:/EXPORT /mnt

and where clients can ask port 111 for the ports, by

    mount -t nfs -o vers=3,rdma,nolock SERVER:/EXPORT /mnt

There answers the host's rpcbind, which is told with --register, or on a host that
has none, this daemon itself, with --portmap :111.`,
		Example: `  nfsrdmad serve /srv/data
  nfsrdmad serve --ro --clients 192.0.2.0/24,2001:db8::/32 /srv/a=/a /srv/b=/b
  nfsrdmad serve --exports /etc/exports
  nfsrdmad serve mem:512MiB=/scratch
  nfsrdmad serve --listen '[::1]:20049' --tcp '[::1]:2049' /srv/data=/data`,
		Args: o.understand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.controlGiven = cmd.Flags().Changed("control")
			return o.run(cmd.Context(), cmd.OutOrStdout(), o.logger(cmd.ErrOrStderr()))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.readOnly, "ro", false, "refuse changes")
	f.StringSliceVar(&o.clientWords, "clients", nil, "serve only these addresses and networks `NET,...`")
	f.BoolVar(&o.noRootSquash, "no-root-squash", false, "let root of a client be root here")
	f.BoolVar(&o.exclusive, "exclusive", false, "promise that nothing but this daemon changes what is in DIR")
	f.StringVar(&o.exportsFile, "exports", "", "serve what `FILE` says (exports(5)); read again at SIGHUP")
	f.BoolVar(&o.manageGIDs, "manage-gids", false, "users are in the groups that this host says: calls have room for 16")
	f.StringVar(&o.listen, "listen", ":20049", "`ADDR` for RPC-over-RDMA (iWARP over TCP)")
	f.StringVar(&o.tcp, "tcp", ":2049", "`ADDR` for the same over plain TCP; \"\" turns it off")
	f.StringVar(&o.portmap, "portmap", "", "`ADDR` for a portmapper (TCP and UDP), most often :111")
	f.BoolVar(&o.register, "register", false, "tell the rpcbind of this host the ports")
	f.Var(&o.inline, "inline", "longest message sent without RDMA")
	f.IntVar(&o.credits, "credits", o.credits, "calls that a connection may have under way")
	f.Var(&o.maxPayload, "max-payload", "longest READ or WRITE")
	f.Var(&o.crc, "crc", "CRC32C on RDMA connections: auto has it where the client asks")
	f.Var(&o.markers, "markers", "on asks clients for MPA markers, for tests: Linux's siw has none and refuses;\na client that asks gets them either way")
	f.BoolVar(&o.noExtensions, "no-extensions", false, "speak the standards only: nothing of our own in private data, FPDUs for the\nsegments of TCP whoever the client is")
	f.DurationVar(&o.lease, "lease", defaultLease, "how long a client that keeps what it has cached may be silent; changes wait\nfor it no longer")
	f.StringVar(&o.state, "state", defaultState(), "`DIR` for what outlives the daemon; one for each")
	f.StringVar(&o.record, "record", "", "`DIR` for records of RDMA connections: at Terminates, and on SIGUSR1")
	f.Var(&o.recordSize, "record-size", "what a connection keeps for its record")
	o.opsOptions.add(f)
	f.Var(&o.logLevel, "log-level", "what to log on standard error")
	f.Var(&o.logFormat, "log-format", "how to log it")
	return cmd
}

// understand parses the arguments and the words of flags. Its errors are usage
// errors.
func (o *serveOptions) understand(_ *cobra.Command, args []string) (err error) {
	if err := o.understandExports(args); err != nil {
		return err
	}
	if o.listen == "" {
		return errors.New("--listen needs an address, such as :20049")
	}
	if o.portmap != "" && o.register {
		return errors.New("--portmap answers in rpcbind's place, and --register tells it: choose one")
	}
	return errors.Join(
		cli.Within("--inline", int64(o.inline), cmpriv.MinSize, cmpriv.MaxSize),
		cli.Within("--credits", int64(o.credits), 1, maxCredits),
		cli.Within("--max-payload", int64(o.maxPayload), minPayload, maxPayload),
		cli.Within("--lease", o.lease, minLease, maxLease),
		cli.Within("--record-size", int64(o.recordSize), minRecord, math.MaxInt32),
	)
}

// understandExports parses the exports: either DIRs, with flags for all of
// them, or an exports file.
func (o *serveOptions) understandExports(args []string) (err error) {
	switch {
	case len(args) == 0 && o.exportsFile == "":
		return errors.New("serve needs a directory: nfsrdmad serve DIR, or --exports FILE")
	case len(args) > 0 && o.exportsFile != "":
		return errors.New("DIR and --exports are both given: write DIR into the file, or leave --exports out")
	case o.exportsFile != "" && (o.readOnly || o.noRootSquash || o.exclusive || len(o.clientWords) > 0):
		return errors.New("--ro, --clients, --no-root-squash and --exclusive are for DIR: write ro, clients, no_root_squash and exclusive into the file of --exports")
	}
	if o.clients, err = parseNets("--clients", o.clientWords); err != nil {
		return err
	}
	if o.exports, err = parseExports(args); err != nil {
		return err
	}
	for i := range o.exports {
		e := &o.exports[i]
		e.clients = o.hosts(o.exclusive || e.memory > 0)
	}
	return nil
}

func (o *serveOptions) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel.Word)); err != nil {
		panic(err) // --log-level takes only slog's words
	}
	h := &slog.HandlerOptions{Level: level}
	if o.logFormat.Word == "json" {
		return slog.New(slog.NewJSONHandler(w, h))
	}
	return slog.New(slog.NewTextHandler(w, h))
}
