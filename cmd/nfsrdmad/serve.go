package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// Limits for flags; those for --inline are in RFC 8797.
const (
	maxCredits = 4096    // each needs a receive buffer on every connection
	minPayload = 4 << 10 // bytes: a page, the minimum that clients need
	maxPayload = 4 << 20 // bytes: the size of a pooled buffer
	maxConns   = 1 << 16 // an idle one needs 16 KiB
)

// serveOptions are serve's flags, and the state of the daemon that it runs.
type serveOptions struct {
	readOnly     bool
	clientWords  []string
	noRootSquash bool
	exclusive    bool
	sec          string
	exportsFile  string
	configFile   string
	listen       string
	tcp          string
	versions     []string // NFS versions
	portmap      string
	register     cli.Choice
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

	operatorOptions
	standbyOptions
	daemon runningDaemon

	// Parsed from the flags above.
	exports []exportSpec
	clients []netip.Prefix
	flavors []exports.Flavor
	noNFS3  bool     // do not serve NFSv3
	minors  []uint32 // NFSv4 minor versions to serve

	exportsSum string // checksum of the exports files when they were last read
	retrySum   string // checksum of the exports files at the last attempt to serve unavailable exports
	temporary  []byte // lines of exports add --until-restart

	comparing sync.Mutex // held while the file systems of nested exports are compared

	kerberos kerberosAcceptor
	tlsOptions
	tls *rpctls.Server // or nil

	// Set when the daemon runs.
	key    [keyLen]byte // file handle key
	names  exports.Names
	groups func(context.Context, netip.Addr, uint32) ([]uint32, error) // returns a user's groups; nil: use the groups in the credentials
	owners *idmap.Map
	tenure *tenure.Tenure // nil: no end
}

func newServeCommand() *cobra.Command {
	o := serveOptions{
		inline:     4 << 10,
		credits:    128,
		maxConns:   rpcrdma.DefaultMaxConns,
		maxPayload: 1 << 20,
		recordSize: 256 << 10,
		crc:        cli.NewChoice("auto", "auto", "on", "off"),
		markers:    cli.NewChoice("off", "off", "on"),
		register:   cli.NewChoice("off", "off", "on", "auto"),

		standbyOptions: newStandbyOptions(),

		delegations: cli.NewChoice("read", "off", "read", "all"),
		logLevel:    cli.NewChoice("info", logWords...),
		logFormat:   cli.NewChoice("text", "text", "json"),
	}
	cmd := &cobra.Command{
		Use:   "serve [flags] {DIR[=/EXPORT]... | --exports FILE}",
		Short: "Serve directories",
		Long: `Serve directories over NFSv3, 4.0, 4.1 and 4.2, on RPC-over-RDMA and TCP
simultaneously, until SIGTERM or SIGINT. Then calls in flight complete, within at
most 10 s, and the exit status is 0. A second signal terminates it at once.

Each DIR is exported under its absolute path, or as /EXPORT. The last "=/" in an
argument separates the two. Instead of DIR, mem: or mem:SIZE is a file system in
memory for experiments, of 1GiB or SIZE, which is lost when the daemon exits.

Without DIR, the daemon serves the exports in the FILE of --exports, which has the
exports(5) format of Linux's own server; nfsrdmad exports check explains such a file.
At SIGHUP, the daemon reloads the file. Unchanged exports are not disturbed; if the new
file has errors, the exports do not change and the log names the errors.

With DIR and without --clients, every host that can connect to the ports may read and
write whatever file modes allow for the user and group that the host claims (AUTH_SYS).
A client's root is mapped to nobody, unless --no-root-squash is given. If the daemon
runs as root, the kernel checks each call with its caller's user and groups; if it runs
as an ordinary user, it executes every call as that user.

If an export uses Kerberos (--sec, or sec= in the file of --exports), the daemon needs
a key for nfs/HOST in the file of --keytab. It then verifies the caller of each call,
and can require that calls are signed (krb5i) or encrypted (krb5p). The steps are in
/usr/share/doc/nfsrdma/security.md. Linux creates its security contexts on TCP port
2049, even for mounts over RDMA.

mountrdma clients may cache data until the daemon recalls it (delegations). With
--exclusive you promise that no process on this host and no other server changes the
directories. Clients may then cache names and attributes too; without the promise they
cache only file data, whose changes the kernel reports. mem: needs no promise, because
only the daemon can change it.

With --standby, several hosts run the same command with a state directory, exports and
data on a file system that they share, and one of them serves. The others wait until it
has stopped, or has been silent for --tenure-time, and until the file system has given up
its lock. They then serve with the same handles, clients and locks; clients connect again.
/healthz fails while a host waits. A host that can no longer show that it is alive stops in
time: it resets its connections, and the exit status is 75. Each export needs an fsid= in
its options, and hosts need different names. Because some file systems give a lock away and
accept late writes of the host that had it, one of the following is needed: a successful
nfsrdmad probe --late in the state directory; --fence with a COMMAND that cuts off the host
whose name and address are appended to its words, and ends with status 0; or
--standby=read-only, for exports with ro only.

The file of --config has the form of nfs.conf(5): sections and lines KEY = VALUE. A key
is the name of a flag below, and yes or no is the value of a flag without one. Flags on
the command line win. An error names the line, and the exit status is 2. The sections and
their keys are:

` + listConfKeys() + `
When it accepts connections, it prints one line on standard output:

    ready rdma=ADDR tcp=ADDR exports=/EXPORT,...

without the ports on which it cannot listen yet, and, on a terminal, the commands that
mount the exports, and who may use them.

With --record, the daemon keeps the latest traffic of each RDMA connection. It writes
it to DIR/PEER-TIME.pcap, for Wireshark, if a Terminate from either end closes the
connection (at most one file per second, and none while DIR has 100), and for all
connections at SIGUSR1. The files contain the data that clients read and write.

Linux mounts an export over RDMA or over TCP with

    mount -t nfs -o rdma SERVER:/EXPORT /mnt
    mount -t nfs SERVER:/EXPORT /mnt

and over NFSv3 (MOUNT uses TCP) with

    mount -t nfs -o vers=3,proto=rdma,port=20049,mountproto=tcp,mountport=2049,nolock SERVER:/EXPORT /mnt

or, if clients can query the ports at port 111, with

    mount -t nfs -o vers=3,rdma SERVER:/EXPORT /mnt

The host's rpcbind serves port 111 (use --register), or on a host without rpcbind
this daemon (use --portmap :111).`,
		Example: `  nfsrdmad serve /srv/data
  nfsrdmad serve --ro --clients 192.0.2.0/24,2001:db8::/32 /srv/a=/a /srv/b=/b
  nfsrdmad serve --exports /etc/exports
  nfsrdmad serve mem:512MiB=/scratch
  nfsrdmad serve --listen '[::1]:20049' --tcp '[::1]:2049' /srv/data=/data`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if o.exportsFile == defaultExports {
				if err := checkFormerFlags(o.configFile, formerFlagFiles); err != nil {
					return err
				}
			}
			var c *conf
			if o.configFile != "" {
				if c, err = readConf(o.configFile, cmd.Flags()); err != nil {
					return err
				}
			}
			return c.locate(o.parseArgs(cmd, args))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.controlGiven = cmd.Flags().Changed("control")
			return o.runDaemon(cmd.Context(), cmd.OutOrStdout(), o.newLogger(cmd.ErrOrStderr()))
		},
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.readOnly, "ro", false, "export read-only")
	f.StringSliceVar(&o.clientWords, "clients", nil, "serve only clients in the networks `NET,...`, which may be single addresses")
	f.BoolVar(&o.noRootSquash, "no-root-squash", false, "do not map a client's root to nobody")
	f.BoolVar(&o.exclusive, "exclusive", false, "promise that only this daemon changes the files in DIR")
	f.StringVar(&o.sec, "sec", "", "security `FLAVORS` for DIR, as for sec= in exports(5) (default sys)")
	f.StringVar(&o.exportsFile, "exports", "", "serve the exports in `FILE` (exports(5)), then those in FILE.d/*.exports;\nSIGHUP reloads the files")
	f.StringVar(&o.configFile, "config", "", "read flags from `FILE`, too; those on the command line win")
	f.StringVar(&o.idmapDomain, "idmap-domain", "", "NFSv4 owners are NAME@`DOMAIN`, from this host's user database")
	f.StringVar(&o.idmapFile, "idmap", "", "read the domain and more from `FILE` (idmapd.conf(5)); SIGHUP reloads the file")
	f.StringVar(&o.kerberos.keytab, "keytab", defaultKeytab, "`FILE` with Kerberos keys; SIGHUP reloads the file")
	o.tlsOptions.addFlags(f)
	f.BoolVar(&o.manageGIDs, "manage-gids", false, "use this host's groups for users, because calls can carry only 16")
	f.StringVar(&o.listen, "listen", ":20049", "`ADDR` for RPC-over-RDMA (iWARP over TCP)")
	f.StringVar(&o.tcp, "tcp", ":2049", "`ADDR` for NFS over plain TCP; \"\" turns it off")
	f.StringSliceVar(&o.versions, "vers", []string{"3", "4.0", "4.1", "4.2"}, "NFS `VERSIONS` to serve: any of 3 and 4.0 to 4.2;\nwithout 3, there is no MOUNT and no lock manager (NLM), and clients need\nonly one port")
	f.Var(&o.delegations, "delegations", "NFSv4 delegations to grant")
	f.StringVar(&o.portmap, "portmap", "", "`ADDR` for a portmapper (TCP and UDP), usually :111")
	f.Var(&o.register, "register", "register the ports with this host's rpcbind, again when it has restarted;\nauto: if it responds, now or later")
	f.Lookup("register").NoOptDefVal = "on"
	f.Var(&o.inline, "inline", "maximum size of a message sent without RDMA")
	f.IntVar(&o.credits, "credits", o.credits, "maximum number of concurrent calls per connection")
	f.Var(&o.maxPayload, "max-payload", "maximum size of a READ or WRITE")
	f.IntVar(&o.maxConns, "max-connections", o.maxConns, "maximum number of RDMA connections (7/8 per address)")
	f.Var(&o.crc, "crc", "CRC32C on RDMA connections; auto: if the client requests it")
	f.Var(&o.markers, "markers", "on requests MPA markers from clients, for tests (Linux's siw rejects it);\na client that requests them always gets them")
	f.BoolVar(&o.noExtensions, "no-extensions", false, "use only the standards: no extensions in private data, and FPDUs that fit\na TCP segment for every client")
	f.DurationVar(&o.lease, "lease", defaultLease, "lease time for clients with delegations; changes wait no longer\nfor a client that does not respond")
	f.DurationVar(&o.lease4, "nfs4-lease", nfsrdma.DefaultLease4, "NFSv4 lease time")
	f.StringVar(&o.state, "state", defaultState(), "`DIR` for persistent state; one per daemon")
	o.standbyOptions.addFlags(f)
	f.StringVar(&o.record, "record", "", "`DIR` for records of RDMA connections, at Terminates and on SIGUSR1")
	f.Var(&o.recordSize, "record-size", "memory per connection for its record")
	o.operatorOptions.addFlags(f)
	f.Var(&o.logLevel, "log-level", "log level on standard error; nfsrdmad log changes it")
	f.Var(&o.logFormat, "log-format", "log format")
	return cmd
}

// parseArgs parses the arguments and the values of flags. Its errors are usage errors.
func (o *serveOptions) parseArgs(_ *cobra.Command, args []string) (err error) {
	if o.idmapDomain != "" {
		if err := idmap.CheckDomain(o.idmapDomain); err != nil {
			return fmt.Errorf("--idmap-domain: %w", err)
		}
	}
	if err := o.tlsOptions.checkFlags(); err != nil {
		return err
	}
	if o.rdmaTLS.Word == "require" && o.discover != "" {
		return errors.New("--discover is unencrypted, and --rdma-tls=require forbids that: omit one of them")
	}
	if o.isStandby() && o.discover != "" {
		return errors.New("--discover announces one host, and another one may serve with --standby: omit one of them")
	}
	if o.onlyEncrypted && o.discover != "" {
		return errors.New("--discover is unencrypted, and --require-encryption forbids that: omit one of them")
	}
	if err := o.parseExportArgs(args); err != nil {
		return err
	}
	if o.listen == "" {
		return errors.New("--listen needs an address, such as :20049")
	}
	if err := o.parseVersions(); err != nil {
		return err
	}
	if o.noNFS3 && (o.portmap != "" || o.register.Word == "on") {
		return errors.New("--portmap and --register tell clients the ports of NFSv3, which --vers omits: omit them, or add 3 to --vers")
	}
	if o.portmap != "" && o.register.Word == "on" {
		return errors.New("--portmap replaces rpcbind, and --register uses it: choose one")
	}
	return errors.Join(
		o.standbyOptions.check(o.exportsFile),
		cli.CheckAddress("--listen", o.listen),
		cli.CheckAddress("--tcp", o.tcp),
		cli.CheckAddress("--portmap", o.portmap),
		cli.CheckAddress("--metrics", o.metrics),
		cli.CheckRange("--inline", int64(o.inline), cmpriv.MinSize, cmpriv.MaxSize),
		cli.CheckRange("--credits", int64(o.credits), 1, maxCredits),
		cli.CheckRange("--max-payload", int64(o.maxPayload), minPayload, maxPayload),
		cli.CheckRange("--max-connections", int64(o.maxConns), 1, maxConns),
		cli.CheckRange("--lease", o.lease, minLease, maxLease),
		cli.CheckRange("--nfs4-lease", o.lease4, minLease4, nfsrdma.MaxLease4),
		cli.CheckRange("--record-size", int64(o.recordSize), minRecord, math.MaxInt32),
	)
}

// parseExportArgs parses the exports: either DIRs, with flags that apply to all of them, or
// an exports file.
func (o *serveOptions) parseExportArgs(args []string) (err error) {
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
		e.clients = o.clientsFromFlags(o.exclusive || e.memory > 0)
		if err := o.checkProtection(e); err != nil {
			return err
		}
	}
	return nil
}

// writeDurationUnit replaces a duration by its text, such as 10s: as a number, it would have no unit.
func writeDurationUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func (o *serveOptions) newLogger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel.Word)); err != nil {
		panic(err) // --log-level accepts only slog's levels
	}
	o.daemon.log = newLogControl(level)
	var next slog.Handler
	if o.logFormat.Word == "json" {
		next = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: writeDurationUnit})
	} else {
		next = cli.NewLogHandler(w, slog.LevelDebug)
	}
	return slog.New(&leveledHandler{control: o.daemon.log, next: next})
}
