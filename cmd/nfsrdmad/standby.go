package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/standby"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
)

// standbyOptions are serve's flags for a host that waits until it may serve.
type standbyOptions struct {
	standby      cli.Choice
	tenureTime   time.Duration
	fence        string
	fenceTimeout time.Duration
}

const (
	standbyOn       = "on"
	standbyReadOnly = "read-only"

	defaultTenure = 10 * time.Second
	minFenceTime  = time.Second
	maxFenceTime  = 10 * time.Minute

	statusEvery = time.Minute // how often a waiting host logs what it waits for
)

func newStandbyOptions() standbyOptions {
	return standbyOptions{standby: cli.NewChoice("off", "off", standbyOn, standbyReadOnly)}
}

func (o *standbyOptions) addFlags(f *pflag.FlagSet) {
	f.Var(&o.standby, "standby", "wait until the host that serves from the directory of --state has stopped;\nread-only: without a fence, for exports with ro")
	f.Lookup("standby").NoOptDefVal = standbyOn
	f.DurationVar(&o.tenureTime, "tenure-time", defaultTenure, "how long a host of --standby must be silent before another\none serves")
	f.StringVar(&o.fence, "fence", "", "`COMMAND` that keeps a silent host of --standby from writing; its name\nand address are appended")
	f.DurationVar(&o.fenceTimeout, "fence-timeout", 30*time.Second, "how long the command of --fence may take")
}

// check checks the flags' values, for a daemon with an exports file or without.
func (o *standbyOptions) check(exportsFile string) error {
	if !o.isStandby() {
		if o.fence != "" {
			return errors.New("--fence is for --standby: add --standby, or omit it")
		}
		return nil
	}
	if exportsFile == "" {
		return errors.New("--standby needs --exports FILE: each export needs an fsid= that is the same on all hosts")
	}
	if o.fence != "" && strings.TrimSpace(o.fence) == "" {
		return errors.New("--fence is blank: name a command, or omit it")
	}
	if o.fence != "" && o.standby.Word == standbyReadOnly {
		return errors.New("--standby=read-only serves without a fence: write --standby, or omit --fence")
	}
	return errors.Join(
		cli.CheckRange("--tenure-time", o.tenureTime, standby.MinTenure, standby.MaxTenure),
		cli.CheckRange("--fence-timeout", o.fenceTimeout, minFenceTime, maxFenceTime),
	)
}

func (o *standbyOptions) isStandby() bool {
	return o.standby.Word == standbyOn || o.standby.Word == standbyReadOnly
}

// A standbyState is the part of a daemon with --standby that status and metrics read.
type standbyState struct {
	waiter atomic.Pointer[standby.Waiter]
	host   atomic.Pointer[standby.Host]
	fence  atomic.Pointer[string] // how a silent host is fenced
	served atomic.Bool            // all services are open
	reset  atomic.Pointer[func()] // resets all connections

	readOnly bool // without a fence
}

func (s *standbyState) isReadOnly() bool { return s != nil && s.readOnly }

// isWaiting reports whether requests must be answered without the server.
func (s *standbyState) isWaiting() bool { return s != nil && !s.served.Load() }

// describe returns the document of status, or nil without --standby.
func (s *standbyState) describe() *report.Standby {
	if s == nil {
		return nil
	}
	d := &report.Standby{Waiting: s.host.Load() == nil, Text: "standby: starting"}
	if f := s.fence.Load(); f != nil {
		d.Fence = *f
	}
	if h := s.host.Load(); h != nil {
		age, err := h.LastBeat()
		d.Seen, d.Left = age.Seconds(), h.Tenure.Left().Seconds()
		d.Text = fmt.Sprintf("serves for another %.1f s unless it can extend that; the last beat succeeded %.1f s ago", d.Left, d.Seen)
		if err != nil {
			d.Text += fmt.Sprintf("; a later one failed: %v", err)
		}
		return d
	}
	if w := s.waiter.Load(); w != nil {
		st := w.Status()
		d.Text, d.Phase, d.Host, d.Seen = st.String(), st.Phase, st.Host, st.Age.Seconds()
	}
	return d
}

// runStandby waits until this host may serve, and serves until ctx is canceled or its tenure is over.
func (o *serveOptions) runStandby(ctx context.Context, stdout io.Writer, log *slog.Logger) (err error) {
	o.daemon.standby = &standbyState{readOnly: o.standby.Word == standbyReadOnly}
	if err := o.closePorts(); err != nil {
		return err
	}
	defer o.keepFromSignals()()
	closeEarly, err := o.daemon.openWaiting(&o.operatorOptions, log)
	if err != nil {
		return err
	}
	defer closeEarly()
	host, st, err := o.takeOver(ctx, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer st.Close()
	o.tenure, st.tenure = host.Tenure, host.Tenure
	defer o.watchTenure(host, log)()
	idle, err := o.serveState(ctx, st, stdout, log)
	host.Stop()
	if idle { // otherwise calls that have not returned may still change files
		o.release(host, log)
	}
	return err
}

// release tells the next host that it may serve.
func (o *serveOptions) release(h *standby.Host, log *slog.Logger) {
	if err := h.Release(); err != nil {
		log.Warn("the next host does not know that this one has stopped, and waits for it to be silent", "err", err, "time", o.tenureTime)
	}
}

// closePorts discards the sockets that the service manager has kept from an earlier start: clients that
// connect to a host that waits must be refused, so that they try another one.
func (o *serveOptions) closePorts() error {
	o.daemon.sockets.DisableStore()
	for _, use := range []string{"rdma", "tcp"} {
		if o.daemon.sockets.Has(use) {
			return fmt.Errorf("a socket unit has passed a socket named %q, which listens while this host of --standby waits, so that clients hang: remove the socket unit, and use --listen and --tcp", use)
		}
	}
	return nil
}

// keepFromSignals keeps signals that have a meaning only for a daemon that serves from ending one that
// waits or stops, until end is called.
func (o *serveOptions) keepFromSignals() (end func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, unix.SIGHUP, unix.SIGUSR1)
	return func() { signal.Stop(ignored) }
}

// takeOver waits until this host may serve, and returns it with the locked state directory.
func (o *serveOptions) takeOver(ctx context.Context, log *slog.Logger) (*standby.Host, *stateDir, error) {
	prepared := make(chan error, 1)
	go func() { prepared <- o.prepareStandby(log) }() // storage may not respond
	select {
	case err := <-prepared:
		if err != nil {
			return nil, nil, err
		}
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	dir := standby.NewDir(o.state, "lock", clientsFile)
	w := standby.NewWaiter(o.standbyConfig(dir))
	o.daemon.standby.waiter.Store(w)
	defer o.reportWaiting(ctx, w, log)()
	host, err := w.Wait(ctx)
	if err != nil {
		return nil, nil, err
	}
	o.daemon.standby.host.Store(host)
	st := &stateDir{dir: o.state, lock: dir.TakeLock(), tenure: host.Tenure}
	if err := errors.Join(context.Cause(ctx), st.checkLayout()); err != nil {
		o.release(host, log)
		st.Close()
		return nil, nil, err
	}
	log.Info("this host serves now", "tenure", o.tenureTime, "fence", *o.daemon.standby.fence.Load())
	return host, st, nil
}

func (o *serveOptions) standbyConfig(dir standby.Store) standby.Config {
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	cfg := standby.Config{Store: dir, Tenure: o.tenureTime, Beat: standby.Beat{
		Host: name, Address: o.ownAddress(), Boot: strings.TrimSpace(string(boot)), Process: rand.Text(), Program: buildinfo.Version(version),
	}}
	if o.fence != "" {
		cfg.Fence = o.runFence
	}
	return cfg
}

// ownAddress returns an address of this host for its beat: that of --listen, or else the first one
// that other hosts can use, or "".
func (o *serveOptions) ownAddress() string {
	if a, err := netip.ParseAddrPort(o.listen); err == nil && !a.Addr().IsUnspecified() {
		return a.Addr().String()
	}
	for _, a := range ownAddresses() {
		if a.IsGlobalUnicast() {
			return a.String()
		}
	}
	return ""
}

// reportWaiting logs what w waits for and tells the service manager, at every change and every minute,
// until end is called.
func (o *serveOptions) reportWaiting(ctx context.Context, w *standby.Waiter, log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		var last string
		var logged time.Time
		for {
			if s := w.Status(); s.Subject() != last || time.Since(logged) >= statusEvery {
				last, logged = s.Subject(), time.Now()
				log.Info(s.String())
				o.daemon.serviceManager.notify("STATUS=" + s.String())
			}
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// exitTenure is the exit status when the tenure is over (EX_TEMPFAIL of sysexits.h): systemd starts
// the service again, which then waits.
const exitTenure = 75

// watchTenure ends the process when the host's tenure is over, until end is called. The process must
// not wait for anything: its file system may hang, and other hosts may serve.
func (o *serveOptions) watchTenure(h *standby.Host, log *slog.Logger) (end func()) {
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stop:
			return
		case <-h.Over():
		}
		err := h.Err()
		if err == nil {
			err = errors.New("the file system has not responded, or the process or its machine was stopped")
		}
		done := make(chan struct{})
		go func() { // standard error may be a pipe that nobody reads
			defer close(done)
			if reset := o.daemon.standby.reset.Load(); reset != nil {
				(*reset)()
			}
			log.Error("this host may serve no longer, because its beat was not written in time: it has reset all connections, and exits with status 75; another host may serve now, and this one waits when it starts again", "err", err)
		}()
		select {
		case <-done:
		case <-time.After(exitTime):
		}
		os.Exit(exitTenure)
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// startsServing records that all services are open.
func (p *runningDaemon) startsServing() {
	if p.standby == nil {
		return
	}
	reset := p.resetConns
	p.standby.reset.Store(&reset)
	p.standby.served.Store(true)
}

// exitTime is how long a process whose tenure is over may take to exit.
const exitTime = 2 * time.Second

// resetTime is how long a process whose tenure is over waits until its connections are reset.
const resetTime = 200 * time.Millisecond

// resetConns resets all connections, and closes the listeners.
func (p *runningDaemon) resetConns() {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(tenure.ErrOver)
	later, stop := context.WithTimeout(context.Background(), resetTime)
	defer stop()
	for _, ctx := range []context.Context{ctx, later} {
		for _, w := range p.transports() {
			_ = w.Shutdown(ctx)
		}
	}
}

// notifyWaiting tells the service manager that the daemon works, although it does not serve yet:
// otherwise the start would time out. It feeds the watchdog until end is called.
func (p *runningDaemon) notifyWaiting() (end func()) {
	p.serviceManager.notify(daemon.SdNotifyReady, "STATUS="+p.standby.describe().Text)
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(every / 2)
		defer t.Stop()
		for {
			p.serviceManager.notify(daemon.SdNotifyWatchdog)
			select {
			case <-t.C:
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}
