package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// callSlack is how many bytes a call or reply over TCP may have in addition to
// its payload: credential, file handles, attributes, names.
const callSlack = 64 << 10

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
		groups := nfsserver.NewUserGroups(nil, log)
		defer groups.Close()
		o.groups = groups.Of
	}
	shares := newShares(st, log)
	taken, err := o.openExports(shares, log)
	if err != nil {
		return err
	}
	if err := o.openGrants(st, log); err != nil {
		return errors.Join(err, shares.Close())
	}
	defer o.ops.grants.Close()
	programs, err := o.programs(taken, log)
	if err != nil {
		return errors.Join(err, shares.Close())
	}
	defer programs.Close()
	transports, err := o.openTransports(o.ops.observe(programs), rec, log)
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
	defer rec.onSignal()()
	endReloads := o.onHangup(ctx, shares, log)
	defer endReloads()
	serving, end := o.ops.givenBack(ctx)
	defer end()
	idle, err := cli.ServeAll(serving, ways, cli.ReadyLine(ways, o.ops.words()+"exports="+readyNames(o.exports)), o.ops.ready(stdout), log)
	if !idle {
		return err // calls still use the shares; the end of the process closes them
	}
	endReloads()
	return errors.Join(err, shares.Close())
}

// openExports opens all directories, or none.
func (o *serveOptions) openExports(s *shares, log *slog.Logger) ([]nfsserver.Export, error) {
	if o.exportsFile != "" {
		list, err := o.readFile(log)
		if err != nil {
			return nil, fmt.Errorf("nothing is served, for the exports are wrong:\n%w", err)
		}
		o.exports = list
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
	options := exports.Options{ReadOnly: o.readOnly, NoRootSquash: o.noRootSquash, Insecure: true, Exclusive: exclusive}
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

// programs returns the programs of all transports, behind one replay cache: a
// client may reconnect on another transport.
func (o *serveOptions) programs(list []nfsserver.Export, log *slog.Logger) (*oncrpc.ReplayCache, error) {
	server, err := nfsserver.New(nfsserver.Config{
		Exports: list, Key: o.key, MaxPayload: int(o.maxPayload), Names: o.names, Groups: o.groups, Grants: o.ops.grants, Log: log,
	})
	if err != nil {
		return nil, err
	}
	o.ops.server = server
	mux := &oncrpc.Mux{Log: log}
	server.Register(mux)
	return oncrpc.NewReplayCache(mux, oncrpc.ReplayConfig{Keep: nfsserver.ExecuteOnce}), nil
}

// openTransports listens on all addresses, or on none.
func (o *serveOptions) openTransports(programs oncrpc.Service, rec *recorder, log *slog.Logger) ([]cli.Way, error) {
	rdma, err := o.openRDMA(programs, rec, log)
	if err != nil {
		return nil, err
	}
	if o.tcp == "" {
		return []cli.Way{rdma}, nil
	}
	tcp, err := o.openTCP(programs, log)
	if err != nil {
		return nil, errors.Join(err, rdma.Close())
	}
	return []cli.Way{rdma, tcp}, nil
}

// rnic returns the configuration of this end of a connection.
func (o *serveOptions) rnic() iwarp.Config {
	crc := map[string]mpa.CRC{"auto": mpa.CRCAuto, "on": mpa.CRCOn, "off": mpa.CRCOff}[o.crc.Word]
	cfg := iwarp.Config{CRC: crc, Markers: o.markers.Word == "on", LongFPDUs: parsesStream}
	if o.noExtensions {
		cfg.LongFPDUs = iwarp.Nobody
	}
	return cfg
}

// parsesStream reports whether a peer takes FPDUs of any length: either iwarp
// knows the peer to do so, or the peer runs this project, with or without CRCs
// and Markers.
func parsesStream(peer mpa.Frame) bool {
	_, ours := cmpriv.ParseExtension(peer.PrivateData)
	return ours || iwarp.ParsesStream(peer)
}

func (o *serveOptions) openRDMA(programs oncrpc.Service, rec *recorder, log *slog.Logger) (cli.Way, error) {
	cfg := o.rnic()
	if rec != nil {
		cfg.Record, cfg.Ended = int(o.recordSize), rec.ended
	}
	l, err := o.ops.passed.listen("rdma", o.listen)
	if err != nil {
		return cli.Way{}, cli.ListenError("--listen", o.listen, err, "")
	}
	s := &rpcrdma.Server{
		Handler:    programs,
		Inline:     int(o.inline),
		Credits:    o.credits,
		MaxPayload: int(o.maxPayload),
		Extensions: o.extension(),
		Log:        log,
	}
	o.ops.rdma = s
	return cli.NewWay[rdma.Listener]("rdma", iwarp.NewListener(l, cfg), s), nil
}

func (o *serveOptions) openTCP(programs oncrpc.Service, log *slog.Logger) (cli.Way, error) {
	l, err := o.ops.passed.listen("tcp", o.tcp)
	if err != nil {
		return cli.Way{}, cli.ListenError("--tcp", o.tcp, err,
			` (beside the kernel's NFS server, which has 2049), or turn it off with --tcp ""`)
	}
	s := &oncrpc.Server{Handler: programs, MaxRecord: int(o.maxPayload) + callSlack, Log: log}
	o.ops.tcp = s
	return cli.NewWay("tcp", l, s), nil
}

// announce logs which access is open to whom, and under which user calls run.
func (o *serveOptions) announce(transports []cli.Way, log *slog.Logger) {
	if open := cli.Open(transports); len(open) > 0 && len(o.clients) == 0 && o.exportsFile == "" {
		log.Warn("every host that reaches these addresses is served; --clients NET,... or --exports FILE restricts that", "addresses", open)
	}
	if uid := os.Geteuid(); uid != 0 {
		log.Info("not root: all calls are done in the name of this user, whoever the caller is", "uid", uid)
	}
}
