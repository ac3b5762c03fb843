package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
	"github.com/nfsrdma/nfsrdma/internal/discover"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// discoverOptions are serve's flags for discovery over RoCE.
type discoverOptions struct {
	discover string
	monitors []string
}

func (o *discoverOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.discover, "discover", "", "local `ADDR` on whose UDP port 4791 (RoCEv2) clients discover this server and\nare notified of restarts (mountrdma discover, mount -o notice)")
	f.StringSliceVar(&o.monitors, "monitors", nil, "networks `NET,...` that may read counters (mountrdma top); this host always may")
}

// A discovery is a discover.Server with its RoCE device.
type discovery struct {
	*discover.Server
	dev *roce.Device
}

// openDiscover starts the discovery server if --discover is set.
func (p *runningDaemon) openDiscover(o *discoverOptions, log *slog.Logger) error {
	if o.discover == "" {
		return nil
	}
	addr, err := netip.ParseAddr(o.discover)
	if err != nil {
		return fmt.Errorf("--discover %s: use a local address without a port: RoCEv2 uses UDP port 4791", o.discover)
	}
	nets, err := parseNets("--monitors", o.monitors)
	if err != nil {
		return err
	}
	clients, err := readDiscoverClients(p.discoverClientsFile())
	if err != nil {
		log.Warn("cannot read the stored client list; clients of the previous run are not notified of the restart", "err", err)
	}
	wire, err := roce.ListenUDP(addr)
	if err != nil {
		return discoverError(o.discover, err)
	}
	d := &discovery{dev: roce.Open(wire, roce.Config{})}
	d.Server, err = discover.Serve(d.dev, discover.Config{
		Describe: p.describeServer, Count: p.fillCounters, Clients: clients, Log: log,
		Save: func(b []byte) error { return replaceFile(p.discoverClientsFile(), b) },
		Monitors: func(a netip.Addr) bool {
			return a == addr.WithZone("") || a.IsLoopback() || slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) })
		},
	})
	if err != nil {
		return errors.Join(err, d.dev.Close())
	}
	p.discovery = d
	return nil
}

// discoverError adds a remedy to the error from an address that cannot be opened.
func discoverError(addr string, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("UDP port 4791 of %s is in use by a mount with -o notice, another nfsrdmad, or the kernel's RoCE (rdma_rxe): use another local address with --discover, or omit it", addr)
	}
	return fmt.Errorf("--discover %s: %w", addr, err)
}

// close stops serving. It does nothing if d is nil.
func (d *discovery) close() {
	if d == nil {
		return
	}
	d.Server.Close()
	_ = d.dev.Close()
}

// discoveryStatus returns the discovery part of status, or nil if d is nil.
func (d *discovery) discoveryStatus() *report.Discovery {
	if d == nil {
		return nil
	}
	t := d.Stats()
	return &report.Discovery{
		Address: d.dev.Addr().String(), Boot: fmt.Sprintf("%016x", d.Boot()), Clients: t.Clients, Monitors: t.Monitors,
		Queries: t.Queries, Registered: t.Registered, Watched: t.Watched, Refused: t.Refused, Dropped: t.Dropped,
		Notices: t.Notices, Updates: t.Updates,
	}
}

// describeServer describes the daemon for discovery.
func (p *runningDaemon) describeServer() discover.Description {
	host, _ := os.Hostname() // a server without a host name is valid
	d := discover.Description{Host: host, Version: buildinfo.Version(version)}
	for _, w := range p.transports() {
		if at, ok := w.Addr.(*net.TCPAddr); ok && w.Name == "rdma" && !d.RDMA.IsValid() {
			d.RDMA = at.AddrPort()
		} else if ok && w.Name == "tcp" && !d.TCP.IsValid() {
			d.TCP = at.AddrPort()
		}
	}
	for _, e := range p.server.Exports() {
		if e.Submount { // it shows in another export
			continue
		}
		d.Exports = append(d.Exports, e.Path)
	}
	return d
}

// fillCounters fills in the counters for top.
func (p *runningDaemon) fillCounters(c *discover.Counters) {
	c.Draining, c.Uptime = p.draining.Load(), p.uptime()
	c.Transports, c.Procs = c.Transports[:0], c.Procs[:0]
	src := p.reportSource()
	for _, t := range src.CollectTransports() {
		c.Transports = append(c.Transports, discover.Transport{
			Name: t.Name, Connections: uint32(t.Connections.Now), Accepted: t.Connections.Total, Refused: t.Connections.Refused,
		})
	}
	for _, conn := range src.CollectConnections() {
		i := slices.IndexFunc(c.Transports, func(t discover.Transport) bool { return t.Name == conn.Transport })
		t := &c.Transports[i]
		t.UnderWay += uint32(conn.CallsUnderWay)
		t.In += conn.BytesIn
		t.Out += conn.BytesOut
	}
	for _, s := range p.observer.Stats() {
		c.Procs = append(c.Procs, newProcCounters(&s))
	}
}

func newProcCounters(s *rpcstats.ProcStats) discover.Proc {
	p := discover.Proc{Calls: s.Calls, In: s.In, Out: s.Out, Took: s.Duration}
	p.Program, p.Name = report.ProcNames(s)
	for _, f := range s.Failed {
		p.Errors += f.Count
	}
	return p
}

// maxClientsFile bounds the bytes read from the file of discovery clients. A valid file is
// always shorter.
const maxClientsFile = 1 << 20

// discoverClientsFile returns the name of the file that lists the clients to notify after
// the next start.
func (p *runningDaemon) discoverClientsFile() string {
	return filepath.Join(p.stateDir, "discover.clients")
}

// readDiscoverClients reads the data that Save has written. It returns nil if the file does
// not exist.
func readDiscoverClients(name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxClientsFile))
}

// replaceFile replaces a file atomically. It does not sync: if a power failure loses the
// file, clients notice the restart themselves, only later.
func replaceFile(name string, b []byte) error {
	next := name + ".new"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, name)
}
