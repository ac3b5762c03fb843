package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// drainTime bounds how long calls under way may take once the daemon is told
// to stop.
const drainTime = 10 * time.Second

// callSlack is how many octets a call or reply over TCP may have beside its
// payload: credential, file handles, attributes, names.
const callSlack = 64 << 10

// transport is one way in.
type transport struct {
	name     string // as the ready line has it
	addr     net.Addr
	serve    func() error // until shutdown; then nil
	shutdown func(context.Context) error
	close    func() error // before serve
}

// run serves until ctx ends.
func (o *serveOptions) run(ctx context.Context, stdout io.Writer, log *slog.Logger) error {
	st, err := openState(o.state)
	if err != nil {
		return err
	}
	defer st.Close()

	rec, err := openRecorder(o.record, log)
	if err != nil {
		return err
	}
	exports, closeExports, err := o.openExports(st, log)
	if err != nil {
		return err
	}
	mux := &oncrpc.Mux{Log: log}
	server, err := nfsserver.New(nfsserver.Config{Exports: exports, MaxPayload: int(o.maxPayload), Log: log})
	if err != nil {
		return errors.Join(err, closeExports())
	}
	server.Register(mux)
	transports, err := o.openTransports(mux, rec, log)
	if err != nil {
		return errors.Join(err, closeExports())
	}
	o.announce(transports, log)
	defer rec.onSignal()()
	idle, err := serveAll(ctx, transports, o.ready(transports), stdout, log)
	if !idle {
		return err // the end of the process closes what calls still use
	}
	return errors.Join(err, closeExports())
}

// openExports opens all directories, or none.
func (o *serveOptions) openExports(st *state, log *slog.Logger) ([]nfsserver.Export, func() error, error) {
	var exports []nfsserver.Export
	closeAll := func() error {
		var errs []error
		for _, e := range exports {
			errs = append(errs, e.FS.Close())
		}
		return errors.Join(errs...)
	}
	for _, e := range o.exports {
		fs, err := openExport(e, st, log)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		exports = append(exports, nfsserver.Export{
			Path:         e.name,
			FS:           fs,
			ReadOnly:     o.readOnly,
			NoRootSquash: o.noRootSquash,
			Clients:      o.clients,
		})
	}
	return exports, closeAll, nil
}

func openExport(e export, st *state, log *slog.Logger) (vfs.FS, error) {
	if err := checkDir(e.dir); err != nil {
		return nil, err
	}
	if err := st.outside(e.dir); err != nil {
		return nil, err
	}
	return posix.Open(e.dir, posix.Options{StateDir: st.ofExport(e), Log: log})
}

// openTransports listens on all addresses, or on none.
func (o *serveOptions) openTransports(mux *oncrpc.Mux, rec *recorder, log *slog.Logger) ([]transport, error) {
	rdma, err := o.openRDMA(mux, rec, log)
	if err != nil {
		return nil, err
	}
	if o.tcp == "" {
		return []transport{rdma}, nil
	}
	tcp, err := o.openTCP(mux, log)
	if err != nil {
		return nil, errors.Join(err, rdma.close())
	}
	return []transport{rdma, tcp}, nil
}

// rnic is how this end of a connection behaves.
func (o *serveOptions) rnic() iwarp.Config {
	crc := map[string]mpa.CRC{"auto": mpa.CRCAuto, "on": mpa.CRCOn, "off": mpa.CRCOff}[o.crc.Word]
	cfg := iwarp.Config{CRC: crc, Markers: o.markers.Word == "on"}
	if o.noExtensions {
		cfg.LongFPDUs = iwarp.Nobody
	}
	return cfg
}

func (o *serveOptions) openRDMA(mux *oncrpc.Mux, rec *recorder, log *slog.Logger) (transport, error) {
	cfg := o.rnic()
	if rec != nil {
		cfg.Record, cfg.Ended = int(o.recordSize), rec.ended
	}
	l, err := iwarp.Listen("tcp", o.listen, cfg)
	if err != nil {
		return transport{}, listenError("--listen", o.listen, err, "")
	}
	s := &rpcrdma.Server{
		Handler:    mux,
		Inline:     int(o.inline),
		Credits:    o.credits,
		MaxPayload: int(o.maxPayload),
		Log:        log,
	}
	return transport{"rdma", l.Addr(), func() error { return s.Serve(l) }, s.Shutdown, l.Close}, nil
}

func (o *serveOptions) openTCP(mux *oncrpc.Mux, log *slog.Logger) (transport, error) {
	l, err := net.Listen("tcp", o.tcp)
	if err != nil {
		return transport{}, listenError("--tcp", o.tcp, err,
			` (beside the kernel's NFS server, which has 2049), or turn it off with --tcp ""`)
	}
	s := &oncrpc.Server{Handler: mux, MaxRecord: int(o.maxPayload) + callSlack, Log: log}
	return transport{"tcp", l.Addr(), func() error { return s.Serve(l) }, s.Shutdown, l.Close}, nil
}

// announce tells the administrator what is open to whom, and in whose name.
func (o *serveOptions) announce(transports []transport, log *slog.Logger) {
	var open []string
	for _, t := range transports {
		if a, ok := t.addr.(*net.TCPAddr); ok && !a.IP.IsLoopback() {
			open = append(open, a.String())
		}
	}
	if len(open) > 0 && len(o.clients) == 0 {
		log.Warn("every host that reaches these addresses is served; --clients NET,... restricts that", "addresses", open)
	}
	if uid := os.Geteuid(); uid != 0 {
		log.Info("not root: all calls are done in the name of this user, whoever the caller is", "uid", uid)
	}
}

// ready is the line that tells scripts where to connect.
func (o *serveOptions) ready(transports []transport) string {
	var b strings.Builder
	b.WriteString("ready")
	for _, t := range transports {
		fmt.Fprintf(&b, " %s=%s", t.name, t.addr)
	}
	fmt.Fprintf(&b, " exports=%s\n", readyNames(o.exports))
	return b.String()
}

// serveAll serves until ctx ends or a transport fails, then drains them all.
// idle tells whether no call is under way any more.
func serveAll(ctx context.Context, transports []transport, ready string, stdout io.Writer, log *slog.Logger) (idle bool, err error) {
	ended := make(chan error, len(transports))
	for _, t := range transports {
		go func() { ended <- t.serve() }()
	}
	if _, err := io.WriteString(stdout, ready); err != nil {
		log.Warn("the ready line could not be written", "error", err)
	}
	running := len(transports)
	select {
	case <-ctx.Done():
		log.Info("stopping: finishing the calls under way", "limit", drainTime)
	case err = <-ended:
		running--
	}
	idle = drain(transports, log)
	for range running {
		err = errors.Join(err, <-ended)
	}
	return idle, err
}

// drain shuts all transports down at the same time. It is false where calls
// took longer than drainTime.
func drain(transports []transport, log *slog.Logger) bool {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	results := make(chan error, len(transports))
	for _, t := range transports {
		go func() { results <- t.shutdown(ctx) }()
	}
	idle := true
	for range transports {
		if err := <-results; err != nil {
			log.Warn("calls under way were cut off", "error", err)
			idle = false
		}
	}
	return idle
}
