package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// runDaemon serves until ctx is canceled.
func (o *serveOptions) runDaemon(ctx context.Context, stdout io.Writer, log *slog.Logger) (err error) {
	if o.daemon.sockets, err = cli.TakeSockets(passableSockets...); err != nil {
		return err
	}
	if o.isStandby() {
		return o.runStandby(ctx, stdout, log)
	}
	st, err := openState(o.state)
	if err != nil {
		return err
	}
	defer st.Close()
	_, err = o.serveState(ctx, st, stdout, log)
	return err
}

// serveState serves with the state in st until ctx is canceled. idle reports whether no calls are
// pending at the end, so that nothing changes the exports or the state any more.
func (o *serveOptions) serveState(ctx context.Context, st *stateDir, stdout io.Writer, log *slog.Logger) (idle bool, err error) {
	idle = true
	if o.key, err = st.handleKey(); err != nil {
		return idle, err
	}

	o.daemon.stateDir = st.dir
	o.daemon.reloadsReady = make(chan struct{})
	if o.exportsFile != "" {
		if o.daemon.exportsFile, err = filepath.Abs(o.exportsFile); err != nil {
			return idle, err
		}
	}
	rec, err := openRecorder(o.record, log)
	if err != nil {
		return idle, err
	}
	names := exports.NewResolver(nil, log)
	defer names.Close()
	o.names = names
	if o.manageGIDs {
		groups := exportset.NewUserGroups(nil, log)
		defer groups.Close()
		o.groups = groups.Of
	}
	rules, err := o.idmapRules()
	if err != nil {
		return idle, err
	}
	o.owners = idmap.New(idmap.Config{Rules: rules, Log: log})
	defer o.owners.Close()
	if o.tls, err = o.tlsOptions.openTLS(o.exportsFile != "", log); err != nil {
		return idle, err
	}
	defer o.watchTLS(ctx)()
	if o.trace {
		if o.daemon.tracer, err = openTracer(ctx, log); err != nil {
			return idle, err
		}
		defer o.daemon.tracer.close()
	}
	shares := newShareSet(st, log)
	defer func() {
		if idle { // otherwise calls still use the shares; process exit closes them
			err = errors.Join(err, shares.Close())
		}
	}()
	o.daemon.shares = shares
	taken, err := o.openExports(ctx, shares, log)
	if err != nil {
		return idle, err
	}
	server, err := o.newServer(taken, st.dir, rec, log)
	if err != nil {
		return idle, err
	}
	defer shutdownNow(server)
	transports, late, err := o.openTransports(server, log)
	if err != nil {
		return idle, err
	}
	o.daemon.late = late
	closeOps, err := o.daemon.openServices(ctx, &o.operatorOptions, transports, log)
	if err != nil {
		return idle, err
	}
	defer closeOps()
	endpoints, undo, err := o.registerPorts(ctx, transports, log)
	if err != nil {
		return idle, err
	}
	defer undo()
	o.logAccess(transports, log)
	o.daemon.startsServing()
	defer rec.recordOnSignal(o.daemon.device)()
	defer o.startReloads(ctx, shares, log)()
	serving, end := o.daemon.drainContext(ctx)
	defer end()
	ready := cli.ReadyLine(endpoints, o.daemon.readyWords()+"exports="+formatExportNames(o.exports))
	if cli.IsTerminal(stdout) {
		ready += o.formatGreeting(endpoints, ownAddresses())
	}
	idle, err = cli.ServeAll(serving, addEndpoints(endpoints, late), ready, o.daemon.newReadyWriter(stdout), log)
	return idle, err
}

// openExports opens the directories of all exports. Exports in a file that cannot be served are
// unavailable until they can; with DIR arguments it opens all, or none.
func (o *serveOptions) openExports(ctx context.Context, s *shareSet, log *slog.Logger) ([]nfsserver.Export, error) {
	o.daemon.setReloaded(true)
	tolerate := func(*exportSpec) bool { return o.exportsFile != "" }
	if o.exportsFile != "" {
		list, err := o.readExportsFile(log)
		if list == nil && err != nil {
			return nil, fmt.Errorf("not serving any export, because the exports have errors:\n%w", err)
		}
		for _, e := range splitJoined(err) {
			log.Error("the exports file has an error; serving the exports without errors", "file", o.exportsFile, "err", e)
		}
		o.exports = list
		o.daemon.setReloaded(err == nil)
	}
	if err := o.checkStandbyExports(o.exports); err != nil {
		return nil, err
	}
	o.findFaults(ctx, o.exports)
	taken, keep, _, err := s.acquireShares(o.exports, tolerate)
	if err != nil {
		return nil, err
	}
	keep()
	return taken, nil
}

// clientsFromFlags returns the clients of a DIR argument according to the flags.
func (o *serveOptions) clientsFromFlags(exclusive bool) []exports.Client {
	options := exports.Options{ReadOnly: o.readOnly, NoRootSquash: o.noRootSquash, Insecure: true, Exclusive: exclusive, Xprtsec: o.transports}
	if o.sec != "" {
		options.Sec = exports.Secure(exports.Rights{ReadOnly: o.readOnly, NoRootSquash: o.noRootSquash}, o.flavors...)
	}
	if len(o.clients) == 0 {
		return exports.Everyone(options)
	}
	var list []exports.Client
	for _, n := range o.clients {
		list = append(list, exports.Client{Host: exports.NetworkHost(n), Options: options})
	}
	return list
}

func openExport(e *exportSpec, st *stateDir, log *slog.Logger) (vfs.FS, error) {
	if e.memory > 0 {
		return mem.New(mem.Options{Size: e.memory}), nil
	}
	if err := checkDir(e.dir); err != nil && !e.isSubmount() {
		return nil, err
	}
	if err := st.checkOutside(e.dir); err != nil {
		return nil, err
	}
	open := posix.Open
	switch {
	case e.mountID != 0:
		open = e.openSubmount
	case e.subvolID != 0:
		open = e.openSubvolume
	}
	fs, err := open(e.dir, posix.Options{StateDir: st.exportDir(e), FSID: e.fsid.Attr(), TableHandles: e.shareKey().checked, MayWriteState: st.tenure.Check, Log: log})
	if err != nil {
		return nil, err // not a nil *posix.FS, which is a vfs.FS
	}
	return fs, nil
}

// newServer returns a server for the exports. Its list of clients is in the directory state.
func (o *serveOptions) newServer(list []nfsserver.Export, state string, rec *recorder, log *slog.Logger) (*nfsrdma.Server, error) {
	cfg := nfsrdma.ServerConfig{
		Minors: o.minors, NoNFS3: o.noNFS3,
		Exports: list, Key: o.key, Names: o.names, Groups: o.groups,
		Owners: o.owners, MaxPayload: int(o.maxPayload), Inline: int(o.inline), Credits: o.credits, MaxConns: o.maxConns,
		Security: &rpcsec.ServerConfig{Acceptor: &o.kerberos, Off: o.kerberos.isOff, Map: o.mapPrincipal},
		Lease:    leaseTerm(o.lease, log), Lease4: o.lease4,
		Clients: filepath.Join(state, clientsFile), Tenure: o.tenure, StandardsOnly: o.noExtensions,
		NoDelegations:    o.delegations.Word == "off" || !mayDelegate(o.lease4, log),
		WriteDelegations: o.delegations.Word == "all",
		IWARP:            o.deviceConfig(), Wrap: o.daemon.wrapReplies, Trace: o.daemon.newCallTrace, Log: log,
		TLS: o.tls, RDMATLS: o.rdmaTLS.Word == "allow", OnlyRDMATLS: o.rdmaTLS.Word == "require", OnlyEncrypted: o.onlyEncrypted,
	}
	if rec != nil {
		cfg.IWARP.Record, cfg.IWARP.Ended = int(o.recordSize), rec.onConnEnd
	}
	server, err := nfsrdma.NewServer(cfg)
	if err != nil {
		return nil, err
	}
	p := server.Parts()
	o.daemon.security, o.daemon.kerberos, o.daemon.tls = p.Security, &o.kerberos, o.tls
	o.daemon.server, o.daemon.nfs4, o.daemon.stateServer, o.daemon.grants, o.daemon.replies, o.daemon.rdma, o.daemon.device = server, p.NFS4, p.Clients, p.Delegations, p.Replies, p.RDMA, p.Device
	return server, nil
}

// shutdownNow shuts a server down without waiting for file system calls: process exit
// terminates those that hang.
func shutdownNow(server *nfsrdma.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = server.Shutdown(ctx)
}

// transportOpeners returns what opens the transports that the flags request.
func (o *serveOptions) transportOpeners(server *nfsrdma.Server) []transportOpener {
	list := []transportOpener{{"rdma", o.listen, func([]cli.Endpoint) ([]cli.Endpoint, error) { return o.openRDMA(server) }}}
	if o.tcp == "" {
		return list
	}
	o.daemon.tcp = server.Parts().TCP
	list = append(list, transportOpener{"tcp", o.tcp, func([]cli.Endpoint) ([]cli.Endpoint, error) { return o.openTCP(server) }})
	if o.portmap == "" && !o.registers() {
		return list
	}
	return append(list, transportOpener{"udp", o.tcp, func(opened []cli.Endpoint) ([]cli.Endpoint, error) {
		at := o.tcp
		if i := slices.IndexFunc(opened, func(w cli.Endpoint) bool { return w.Name == "tcp" }); i >= 0 { // the port may be a free one
			at = opened[i].Addr.String()
		}
		return o.openUDP(server, at)
	}})
}

// deviceConfig returns the configuration of the RDMA device.
func (o *serveOptions) deviceConfig() iwarp.Config {
	crc := map[string]mpa.CRC{"auto": mpa.CRCAuto, "on": mpa.CRCOn, "off": mpa.CRCOff}[o.crc.Word]
	return iwarp.Config{CRC: crc, Markers: o.markers.Word == "on"}
}

func (o *serveOptions) openRDMA(server *nfsrdma.Server) (endpoints []cli.Endpoint, err error) {
	all, err := o.daemon.sockets.ListenAll("rdma", o.listen)
	if err != nil {
		return nil, cli.ListenError("--listen", o.listen, err, "")
	}
	for _, l := range all {
		endpoints = append(endpoints, cli.Endpoint{
			Name: "rdma", Addr: l.Addr(), Serve: func() error { return server.ServeRDMA(l) },
			Shutdown: o.daemon.rdma.Shutdown, Close: l.Close,
		})
	}
	return endpoints, nil
}

func (o *serveOptions) openTCP(server *nfsrdma.Server) (endpoints []cli.Endpoint, err error) {
	all, err := o.daemon.sockets.ListenAll("tcp", o.tcp)
	if err != nil {
		return nil, cli.ListenError("--tcp", o.tcp, err,
			` (the kernel's NFS server uses 2049), or turn it off with --tcp ""`)
	}
	for _, l := range all {
		endpoints = append(endpoints, cli.Endpoint{
			Name: "tcp", Addr: l.Addr(), Serve: func() error { return server.ServeTCP(l) },
			Shutdown: o.daemon.tcp.Shutdown, Close: l.Close,
		})
	}
	return endpoints, nil
}

// openUDP also serves NFSv3 locks over UDP, at the address of TCP.
func (o *serveOptions) openUDP(server *nfsrdma.Server, addr string) ([]cli.Endpoint, error) {
	p, err := oncrpc.ListenPackets(addr)
	if err != nil {
		return nil, cli.ListenError("--tcp", addr, err, " over UDP")
	}
	return []cli.Endpoint{{
		Name: "udp", Addr: p.Addr(), Serve: func() error { return server.ServeUDP(p) }, Shutdown: p.Shutdown, Close: p.Close,
	}}, nil
}

// logAccess warns if access is too open or limits are too low, and logs as which user calls
// are executed.
func (o *serveOptions) logAccess(transports []cli.Endpoint, log *slog.Logger) {
	if open := cli.NonLoopback(transports); len(open) > 0 && len(o.clients) == 0 && o.exportsFile == "" {
		log.Warn("any host that can connect to these addresses may mount; restrict access with --clients NET,... or --exports FILE", "addresses", open)
	}
	o.warnAboutGSSPort(o.exports, log)
	o.warnAboutFileLimit(doctor.OpenFiles, log)
	if uid := os.Geteuid(); uid != 0 {
		log.Info("not running as root: all calls are executed as this user", "uid", uid)
	}
}

// parseVersions parses the NFS versions to serve.
func (o *serveOptions) parseVersions() error {
	o.noNFS3, o.minors = !slices.Contains(o.versions, "3"), []uint32{}
	for _, v := range o.versions {
		switch v {
		case "3":
		case "4.0":
			o.minors = append(o.minors, nfs4.Minor0)
		case "4.1":
			o.minors = append(o.minors, nfs4.Minor1)
		case "4.2":
			o.minors = append(o.minors, nfs4.Minor2)
		default:
			return fmt.Errorf("--vers %s: the versions are 3, 4.0, 4.1 and 4.2", v)
		}
	}
	if len(o.versions) == 0 {
		return errors.New("--vers needs a version: 3, 4.0, 4.1 or 4.2")
	}
	return nil
}
