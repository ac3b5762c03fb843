package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

// Limits of flags; those of --inline are RFC 8797's.
const (
	maxCredits = 4096    // each costs a receive buffer, on every connection
	minPayload = 4 << 10 // bytes: a page, so that clients can work
	maxPayload = 4 << 20 // bytes: the size of a pooled buffer
	maxConns   = 1 << 16 // an idle one takes 16 KiB
)

// serveOptions are the flags of serve.
type serveOptions struct {
	readOnly     bool
	clientWords  []string
	noRootSquash bool
	exclusive    bool
	sec          string
	exportsFile  string
	listen       string
	tcp          string
	versions     []string // of NFS
	portmap      string
	register     bool
	manageGIDs   bool
	inline       cli.Size
	credits      int
	maxConns     int
	maxPayload   cli.Size
	crc          cli.Choice
	markers      cli.Choice
	delegations  cli.Choice
	noExtensions bool
	idmapDomain  string
	idmapFile    string
	lease        time.Duration
	lease4       time.Duration
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
	flavors []exports.Flavor

	exportsSum string // of the text in exportsFile that was read last

	kerberos mechanism
	tlsOptions
	tls *rpctls.Server // or nil

	// Set when the daemon runs.
	key    [keyLen]byte // of file handles
	names  exports.Names
	groups func(context.Context, netip.Addr, uint32) ([]uint32, error) // of users; nil: the groups in the calls
	owners *idmap.Map
}

func newServe() *cobra.Command {
	o := serveOptions{
		inline:     4 << 10,
		credits:    128,
		maxConns:   rpcrdma.DefaultMaxConns,
		maxPayload: 1 << 20,
		recordSize: 256 << 10,
		crc:        cli.NewChoice("auto", "auto", "on", "off"),
		markers:    cli.NewChoice("off", "off", "on"),

		delegations: cli.NewChoice("read", "off", "read", "all"),
		logLevel:    cli.NewChoice("info", "debug", "info", "warn", "error"),
		logFormat:   cli.NewChoice("text", "text", "json"),
	}
	cmd := &cobra.Command{
		Use:   "serve [flags] {DIR[=/EXPORT]... | --exports FILE}",
		Short: "Serve directories",
		Long: `Serve directories over NFS versions 3, 4.0, 4.1 and 4.2, on RPC-over-RDMA and on TCP at the same
time, until SIGTERM or SIGINT; then calls under way are finished, for 10 s at
most, and the exit status is 0. A second signal ends it at once.

Each DIR is exported under its absolute path, or as /EXPORT. The last "=/" of an
argument separates the two. Instead of DIR, mem: or mem:SIZE is a file system in
memory for trials, of 1GiB or SIZE, which ends with the daemon.

Without DIR, the daemon serves the exports of the FILE of --exports, in the format of
exports(5), as for Linux's own server; nfsrdmad exports check explains such a file. At
SIGHUP the daemon reads the file again. Exports that stay are not disturbed; if the new
file has errors, the exports do not change and the log names the errors.

With DIR and without --clients, every host that can connect to the ports may read and write
as the modes of files allow the user and group that the host claims (AUTH_SYS).
Root of a client becomes nobody, unless --no-root-squash is given. If the daemon runs as
root, the kernel checks each call with its caller's user and groups; if it runs as an
ordinary user, it executes every call as that user.

If an export takes Kerberos (--sec, or sec= in the file of --exports), the daemon needs a
key of nfs/HOST in the file of --keytab. Then it verifies who makes a call, and may demand
that calls are signed (krb5i) or encrypted (krb5p); docs/security.md has the steps. Linux
makes its contexts on TCP port 2049, also for mounts over RDMA.

mountrdma clients may keep cached data until the daemon recalls it (delegations).
--exclusive is your promise that no process of this host and no other server changes
the directories. Clients may then keep names and attributes too; without the promise
they keep only the data of files, whose changes the kernel reports. mem: needs no
promise, because only the daemon can change it.

Once it accepts connections, it prints one line on standard output:

    ready rdma=ADDR tcp=ADDR exports=/EXPORT,...

and, on a terminal, the commands that mount the exports, and who may.

With --record, each RDMA connection keeps its latest traffic. The daemon writes it
to DIR/PEER-TIME.pcap, for Wireshark, if a Terminate of either end closes the
connection (at most one file a second, and none while DIR has 100), and for all
connections at SIGUSR1. The files contain the data that clients read and write.

Linux mounts an export over RDMA or over TCP by

    mount -t nfs -o rdma SERVER:/EXPORT /mnt
    mount -t nfs SERVER:/EXPORT /mnt

and by version 3 (MOUNT goes over TCP) by

    mount -t nfs -o vers=3,proto=rdma,port=20049,mountproto=tcp,mountport=2049,nolock SERVER:/EXPORT /mnt

or, if clients can query port 111 for the ports, by

    mount -t nfs -o vers=3,rdma SERVER:/EXPORT /mnt

Port 111 is answered by the host's rpcbind, if --register is given, or on a host
without rpcbind by this daemon, with --portmap :111.`,
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
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.readOnly, "ro", false, "refuse changes")
	f.StringSliceVar(&o.clientWords, "clients", nil, "serve only these addresses and networks `NET,...`")
	f.BoolVar(&o.noRootSquash, "no-root-squash", false, "let a client's root act as root")
	f.BoolVar(&o.exclusive, "exclusive", false, "promise that only this daemon changes the files in DIR")
	f.StringVar(&o.sec, "sec", "", "security `FLAVORS` of DIR, as sec= in exports(5) has them; sys without it")
	f.StringVar(&o.exportsFile, "exports", "", "serve the exports of `FILE` (exports(5)); SIGHUP rereads the file")
	f.StringVar(&o.idmapDomain, "idmap-domain", "", "version 4: owners are NAME@`DOMAIN`, by this host's user database")
	f.StringVar(&o.idmapFile, "idmap", "", "the domain and more from `FILE` (idmapd.conf(5)); SIGHUP rereads the file")
	f.StringVar(&o.kerberos.keytab, "keytab", defaultKeytab, "`FILE` with keys for Kerberos; SIGHUP rereads it")
	o.tlsOptions.add(f)
	f.BoolVar(&o.manageGIDs, "manage-gids", false, "take users' groups from this host, because calls have room for only 16")
	f.StringVar(&o.listen, "listen", ":20049", "`ADDR` for RPC-over-RDMA (iWARP over TCP)")
	f.StringVar(&o.tcp, "tcp", ":2049", "`ADDR` for NFS over plain TCP; \"\" turns it off")
	f.StringSliceVar(&o.versions, "vers", []string{"3", "4.0", "4.1", "4.2"}, "`VERSIONS` of NFS to serve: 3, and any of 4.0 to 4.2")
	f.Var(&o.delegations, "delegations", "version 4: clients open and read, or also write, without calls")
	f.StringVar(&o.portmap, "portmap", "", "`ADDR` for a portmapper (TCP and UDP), most often :111")
	f.BoolVar(&o.register, "register", false, "register the ports with this host's rpcbind")
	f.Var(&o.inline, "inline", "longest message sent without RDMA")
	f.IntVar(&o.credits, "credits", o.credits, "concurrent calls of a connection")
	f.Var(&o.maxPayload, "max-payload", "longest READ or WRITE")
	f.IntVar(&o.maxConns, "max-connections", o.maxConns, "RDMA connections at once, 7/8 of them from one address")
	f.Var(&o.crc, "crc", "CRC32C on RDMA connections: auto uses it if the client asks")
	f.Var(&o.markers, "markers", "on asks clients for MPA markers, for tests (Linux's siw refuses);\na client that asks gets them always")
	f.BoolVar(&o.noExtensions, "no-extensions", false, "use only the standards: no private data of our own, FPDUs of a TCP segment\nfor every client")
	f.DurationVar(&o.lease, "lease", defaultLease, "how long a client with delegations may be silent;\nchanges wait no longer for it")
	f.DurationVar(&o.lease4, "nfs4-lease", nfsrdma.DefaultLease4, "version 4: how long a client with files or locks may be silent")
	f.StringVar(&o.state, "state", defaultState(), "`DIR` for lasting state; one for each daemon")
	f.StringVar(&o.record, "record", "", "`DIR` for records of RDMA connections: at Terminates, and on SIGUSR1")
	f.Var(&o.recordSize, "record-size", "memory of a connection for its record")
	o.opsOptions.add(f)
	f.Var(&o.logLevel, "log-level", "level of the log on standard error")
	f.Var(&o.logFormat, "log-format", "how to log it")
	return cmd
}

// understand parses the arguments and the words of flags. Its errors are usage
// errors.
func (o *serveOptions) understand(_ *cobra.Command, args []string) (err error) {
	if o.idmapDomain != "" {
		if err := idmap.CheckDomain(o.idmapDomain); err != nil {
			return fmt.Errorf("--idmap-domain: %w", err)
		}
	}
	if err := o.tlsOptions.understand(); err != nil {
		return err
	}
	if o.rdma.Word == "require" && o.discover != "" {
		return errors.New("--discover is in clear, and --rdma-tls=require forbids that: leave one out")
	}
	if o.only && o.discover != "" {
		return errors.New("--discover is in clear, and --require-encryption forbids that: leave one out")
	}
	if err := o.understandExports(args); err != nil {
		return err
	}
	if o.listen == "" {
		return errors.New("--listen needs an address, such as :20049")
	}
	if o.portmap != "" && o.register {
		return errors.New("--portmap replaces rpcbind, and --register uses it: choose one")
	}
	return errors.Join(
		cli.Within("--inline", int64(o.inline), cmpriv.MinSize, cmpriv.MaxSize),
		cli.Within("--credits", int64(o.credits), 1, maxCredits),
		cli.Within("--max-payload", int64(o.maxPayload), minPayload, maxPayload),
		cli.Within("--max-connections", int64(o.maxConns), 1, maxConns),
		cli.Within("--lease", o.lease, minLease, maxLease),
		cli.Within("--nfs4-lease", o.lease4, minLease4, nfsrdma.MaxLease4),
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
		return errors.New("DIR and --exports cannot be combined: write DIR into the file, or omit --exports")
	case o.exportsFile != "" && (o.readOnly || o.noRootSquash || o.exclusive || len(o.clientWords) > 0 || o.sec != "" || o.xprtsec != ""):
		return errors.New("--ro, --clients, --no-root-squash, --exclusive, --sec and --xprtsec are for DIR: write ro, clients, no_root_squash, exclusive, sec= and xprtsec= into the file of --exports")
	}
	if o.clients, err = parseNets("--clients", o.clientWords); err != nil {
		return err
	}
	if o.sec != "" {
		if o.flavors, err = exports.ParseFlavors(o.sec); err != nil {
			return fmt.Errorf("--sec: %w", err)
		}
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
