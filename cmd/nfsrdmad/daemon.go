package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/rpcsec"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// run serves until ctx ends.
func (o *serveOptions) run(ctx context.Context, stdout io.Writer, log *slog.Logger) error {
	st, err := openState(o.state)
	if err != nil {
		return err
	}
	defer st.Close()
	if o.key, err = st.handleKey(); err != nil {
		return err
	}

	o.ops.dir = st.dir
	o.ops.settled = make(chan struct{})
	if o.exportsFile != "" {
		if o.ops.file, err = filepath.Abs(o.exportsFile); err != nil {
			return err
		}
	}
	if o.ops.passed, err = takePassed(); err != nil {
		return err
	}
	rec, err := openRecorder(o.record, log)
	if err != nil {
		return err
	}
	names := exports.NewResolver(nil, log)
	defer names.Close()
	o.names = names
	if o.manageGIDs {
		groups := realm.NewUserGroups(nil, log)
		defer groups.Close()
		o.groups = groups.Of
	}
	rules, err := o.idmapRules()
	if err != nil {
		return err
	}
	o.owners = idmap.New(idmap.Config{Rules: rules, Log: log})
	defer o.owners.Close()
	if o.tls, err = o.tlsOptions.open(log); err != nil {
		return err
	}
	defer o.watchTLS(ctx)()
	if o.trace {
		if o.ops.tracer, err = openTracer(ctx, log); err != nil {
			return err
		}
		defer o.ops.tracer.close()
	}
	shares := newShares(st, log)
	taken, err := o.openExports(ctx, shares, log)
	if err != nil {
		return err
	}
	server, err := o.newServer(taken, st.dir, rec, log)
	if err != nil {
		return errors.Join(err, shares.Close())
	}
	defer abort(server)
	transports, err := o.openTransports(server)
	if err != nil {
		return errors.Join(err, shares.Close())
	}
	closeOps, err := o.ops.open(ctx, &o.opsOptions, transports, log)
	if err != nil {
		return errors.Join(err, shares.Close())
	}
	defer closeOps()
	ways, undo, err := o.findable(ctx, transports, log)
	if err != nil {
		return errors.Join(err, shares.Close())
	}
	defer undo()
	o.announce(transports, log)
	defer rec.onSignal(o.ops.device)()
	endReloads := o.onHangup(ctx, shares, log)
	defer endReloads()
	serving, end := o.ops.givenBack(ctx)
	defer end()
	ready := cli.ReadyLine(ways, o.ops.words()+"exports="+readyNames(o.exports))
	if cli.IsTerminal(stdout) {
		ready += o.greeting(ways, ownAddresses())
	}
	idle, err := cli.ServeAll(serving, ways, ready, o.ops.ready(stdout), log)
	if !idle {
		return err // calls still use the shares; the end of the process closes them
	}
	endReloads()
	return errors.Join(err, shares.Close())
}

// openExports opens all directories, or none.
func (o *serveOptions) openExports(ctx context.Context, s *shares, log *slog.Logger) ([]nfsserver.Export, error) {
	if o.exportsFile != "" {
		list, err := o.readFile(log)
		if err != nil {
			return nil, fmt.Errorf("no export is served, because the exports have errors:\n%w", err)
		}
		o.exports = list
	}
	if err := o.protect(o.exports); err != nil {
		return nil, err
	}
	if err := o.secure(ctx, o.exports); err != nil {
		return nil, err
	}
	taken, keep, _, err := s.take(o.exports)
	if err != nil {
		return nil, err
	}
	keep()
	return taken, nil
}

// hosts returns the clients of a directory according to the flags.
func (o *serveOptions) hosts(exclusive bool) []exports.Client {
	options := exports.Options{ReadOnly: o.readOnly, NoRootSquash: o.noRootSquash, Insecure: true, Exclusive: exclusive, Xprtsec: o.transports}
	if o.sec != "" {
		options.Sec = exports.Secure(exports.Rights{ReadOnly: o.readOnly, NoRootSquash: o.noRootSquash}, o.flavors...)
	}
	if len(o.clients) == 0 {
		return exports.Everyone(options)
	}
	var list []exports.Client
	for _, n := range o.clients {
		list = append(list, exports.Client{Host: exports.InNetwork(n), Options: options})
	}
	return list
}

func openExport(e *export, st *state, log *slog.Logger) (vfs.FS, error) {
	if e.memory > 0 {
		return mem.New(mem.Options{Size: e.memory}), nil
	}
	if err := checkDir(e.dir); err != nil {
		return nil, err
	}
	if err := st.outside(e.dir); err != nil {
		return nil, err
	}
	return posix.Open(e.dir, posix.Options{StateDir: st.ofExport(e), FSID: e.fsid.Attr(), TableHandles: e.key().checked, Log: log})
}

// newServer returns the server of the exports. Its marker and the list of its
// clients are in the directory state.
func (o *serveOptions) newServer(list []nfsserver.Export, state string, rec *recorder, log *slog.Logger) (*nfsrdma.Server, error) {
	minors, err := minorVersions(o.versions)
	if err != nil {
		return nil, err
	}
	cfg := nfsrdma.ServerConfig{
		Minors:  minors,
		Exports: list, Key: o.key, Names: o.names, Groups: o.groups,
		Owners: o.owners, MaxPayload: int(o.maxPayload), Inline: int(o.inline), Credits: o.credits, MaxConns: o.maxConns,
		Security: &rpcsec.ServerConfig{Acceptor: &o.kerberos, Off: o.kerberos.off, Map: o.userOf},
		Lease:    leaseTerm(o.lease, log), Lease4: o.lease4, Marker: filepath.Join(state, "grants"),
		Clients: filepath.Join(state, "nfs4-clients"), StandardsOnly: o.noExtensions,
		NoDelegations:    o.delegations.Word == "off" || !mayDelegate(o.lease4, log),
		WriteDelegations: o.delegations.Word == "all",
		IWARP:            o.rnic(), Wrap: o.ops.observe, Log: log,
		TLS: o.tls, RDMATLS: o.rdma.Word == "allow", OnlyRDMATLS: o.rdma.Word == "require", OnlyEncrypted: o.only,
	}
	if o.ops.tracer != nil {
		cfg.Trace = o.ops.tracer.follow
	}
	if rec != nil {
		cfg.IWARP.Record, cfg.IWARP.Ended = int(o.recordSize), rec.ended
	}
	server, err := nfsrdma.NewServer(cfg)
	if err != nil {
		return nil, err
	}
	p := server.Parts()
	o.ops.security, o.ops.mechanism, o.ops.tls = p.Security, &o.kerberos, o.tls
	o.ops.server, o.ops.four, o.ops.holders, o.ops.grants, o.ops.replies, o.ops.rdma, o.ops.device = p.NFS, p.NFS4, p.Clients, p.Delegations, p.Replies, p.RDMA, p.Device
	return server, nil
}

// abort ends a server without waiting for calls of file systems: the end of the
// process ends those that are hung.
func abort(server *nfsrdma.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = server.Shutdown(ctx)
}

// openTransports listens on all addresses, or on none.
func (o *serveOptions) openTransports(server *nfsrdma.Server) ([]cli.Way, error) {
	rdma, err := o.openRDMA(server)
	if err != nil {
		return nil, err
	}
	if o.tcp == "" {
		return []cli.Way{rdma}, nil
	}
	tcp, err := o.openTCP(server)
	if err != nil {
		return nil, errors.Join(err, rdma.Close())
	}
	if o.portmap == "" && !o.register {
		return []cli.Way{rdma, tcp}, nil
	}
	udp, err := o.openUDP(server, tcp.Addr.String())
	if err != nil {
		return nil, errors.Join(err, rdma.Close(), tcp.Close())
	}
	return []cli.Way{rdma, tcp, udp}, nil
}

// rnic returns the configuration of the device.
func (o *serveOptions) rnic() iwarp.Config {
	crc := map[string]mpa.CRC{"auto": mpa.CRCAuto, "on": mpa.CRCOn, "off": mpa.CRCOff}[o.crc.Word]
	return iwarp.Config{CRC: crc, Markers: o.markers.Word == "on"}
}

func (o *serveOptions) openRDMA(server *nfsrdma.Server) (cli.Way, error) {
	l, err := o.ops.passed.listen("rdma", o.listen)
	if err != nil {
		return cli.Way{}, cli.ListenError("--listen", o.listen, err, "")
	}
	return cli.Way{
		Name: "rdma", Addr: l.Addr(), Serve: func() error { return server.ServeRDMA(l) },
		Shutdown: o.ops.rdma.Shutdown, Close: l.Close,
	}, nil
}

func (o *serveOptions) openTCP(server *nfsrdma.Server) (cli.Way, error) {
	l, err := o.ops.passed.listen("tcp", o.tcp)
	if err != nil {
		return cli.Way{}, cli.ListenError("--tcp", o.tcp, err,
			` (the kernel's NFS server uses 2049), or turn it off with --tcp ""`)
	}
	o.ops.tcp = server.Parts().TCP
	return cli.Way{
		Name: "tcp", Addr: l.Addr(), Serve: func() error { return server.ServeTCP(l) },
		Shutdown: o.ops.tcp.Shutdown, Close: l.Close,
	}, nil
}

// openUDP serves the locks of version 3 over UDP too, at the address of TCP, if clients can find that.
func (o *serveOptions) openUDP(server *nfsrdma.Server, addr string) (cli.Way, error) {
	p, err := oncrpc.ListenPackets(addr)
	if err != nil {
		return cli.Way{}, cli.ListenError("--tcp", addr, err, " over UDP")
	}
	return cli.Way{
		Name: "udp", Addr: p.Addr(), Serve: func() error { return server.ServeUDP(p) }, Shutdown: p.Shutdown, Close: p.Close,
	}, nil
}

// announce logs which access is open to whom, and under which user calls run.
func (o *serveOptions) announce(transports []cli.Way, log *slog.Logger) {
	if open := cli.Open(transports); len(open) > 0 && len(o.clients) == 0 && o.exportsFile == "" {
		log.Warn("any host that can connect to these addresses may mount; restrict them with --clients NET,... or --exports FILE", "addresses", open)
	}
	o.warnOfPort(o.exports, log)
	o.warnOfFiles(doctor.OpenFiles, log)
	if uid := os.Geteuid(); uid != 0 {
		log.Info("not root: every call is executed as this user, for any caller", "uid", uid)
	}
}

// minorVersions returns the minor versions of NFS version 4 in a list of
// versions. The result is nil, for the default of nfsrdma.ServerConfig, only if
// the list is.
func minorVersions(versions []string) (minors []uint32, err error) {
	if versions == nil {
		return nil, nil
	}
	three := false
	minors = []uint32{}
	for _, v := range versions {
		switch v {
		case "3":
			three = true
		case "4.0":
			minors = append(minors, nfs4.Minor0)
		case "4.1":
			minors = append(minors, nfs4.Minor1)
		case "4.2":
			minors = append(minors, nfs4.Minor2)
		default:
			return nil, fmt.Errorf("--vers %s: versions are 3, 4.0, 4.1 and 4.2", v)
		}
	}
	if !three {
		return nil, errors.New("--vers: add 3, which clients need for MOUNT and which is always served")
	}
	return minors, nil
}
