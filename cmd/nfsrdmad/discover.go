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

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/discover"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/nfsrdma/nfsrdma/roce"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// discoverOptions are the flags of serve for discovery over RoCE.
type discoverOptions struct {
	discover string
	monitors []string
}

func (o *discoverOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.discover, "discover", "", "`ADDR` of this host: at its UDP port 4791 (RoCEv2) clients find this server\nand learn of restarts (mountrdma discover, mount -o notice)")
	f.StringSliceVar(&o.monitors, "monitors", nil, "networks `NET,...` whose mountrdma top may read counters, as ADDR's host may")
}

// A discovery is a server of package discover with its port.
type discovery struct {
	*discover.Server
	dev *roce.Device
}

// openDiscover opens the server of --discover, if that is set.
func (p *operations) openDiscover(o *discoverOptions, log *slog.Logger) error {
	if o.discover == "" {
		return nil
	}
	addr, err := netip.ParseAddr(o.discover)
	if err != nil {
		return fmt.Errorf("--discover %s: give an address of this host, without a port: RoCEv2 uses UDP port 4791", o.discover)
	}
	nets, err := parseNets("--monitors", o.monitors)
	if err != nil {
		return err
	}
	clients, err := readClients(p.clientsFile())
	if err != nil {
		log.Warn("clients of the last run get no notice of the restart", "err", err)
	}
	wire, err := roce.ListenUDP(addr)
	if err != nil {
		return discoverError(o.discover, err)
	}
	d := &discovery{dev: roce.Open(wire, roce.Config{})}
	d.Server, err = discover.Serve(d.dev, discover.Config{
		Describe: p.describe, Count: p.count, Clients: clients, Log: log,
		Save: func(b []byte) error { return replaceFile(p.clientsFile(), b) },
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

// discoverError adds a remedy to the error of an address that cannot be opened.
func discoverError(addr string, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("UDP port 4791 of %s is in use by a mount with -o notice, another nfsrdmad, or the kernel's RoCE (rdma_rxe): give --discover another address of this host, or omit it", addr)
	}
	return fmt.Errorf("--discover %s: %w", addr, err)
}

// close ends the service. It does nothing if d is nil.
func (d *discovery) close() {
	if d == nil {
		return
	}
	d.Server.Close()
	_ = d.dev.Close()
}

// status returns the part of status about discovery, or nil if d is nil.
func (d *discovery) status() *discoveryDoc {
	if d == nil {
		return nil
	}
	t := d.Stats()
	return &discoveryDoc{
		Address: d.dev.Addr().String(), Boot: fmt.Sprintf("%016x", d.Boot()), Clients: t.Clients, Monitors: t.Monitors,
		Queries: t.Queries, Registered: t.Registered, Watched: t.Watched, Refused: t.Refused, Dropped: t.Dropped,
		Notices: t.Notices, Updates: t.Updates,
	}
}

// describe returns the description of the daemon for discovery.
func (p *operations) describe() discover.Description {
	host, _ := os.Hostname() // a server without a host name is valid
	d := discover.Description{Host: host, Version: cli.VersionString(version)}
	for _, w := range p.ways {
		if at, ok := w.Addr.(*net.TCPAddr); ok && w.Name == "rdma" {
			d.RDMA = at.AddrPort()
		} else if ok && w.Name == "tcp" {
			d.TCP = at.AddrPort()
		}
	}
	for _, e := range p.server.Exports() {
		d.Exports = append(d.Exports, e.Path)
	}
	return d
}

// count fills in the counters for top.
func (p *operations) count(c *discover.Counters) {
	c.Draining, c.Uptime = p.draining.Load(), p.uptime()
	c.Transports, c.Procs = c.Transports[:0], c.Procs[:0]
	for _, t := range p.transports() {
		c.Transports = append(c.Transports, discover.Transport{
			Name: t.Name, Connections: uint32(t.Connections.Now), Accepted: t.Connections.Total, Refused: t.Connections.Refused,
		})
	}
	for _, conn := range p.connections() {
		i := slices.IndexFunc(c.Transports, func(t discover.Transport) bool { return t.Name == conn.Transport })
		t := &c.Transports[i]
		t.UnderWay += uint32(conn.CallsUnderWay)
		t.In += conn.BytesIn
		t.Out += conn.BytesOut
	}
	for _, s := range p.observer.Stats() {
		c.Procs = append(c.Procs, procCounters(&s))
	}
}

func procCounters(s *rpcstats.ProcStats) discover.Proc {
	p := discover.Proc{Calls: s.Calls, In: s.In, Out: s.Out, Took: s.Duration}
	p.Program, p.Name = names(s)
	for _, f := range s.Failed {
		p.Errors += f.Count
	}
	return p
}

// maxClientsFile bounds the file of discover's clients, in bytes. The file is
// always shorter.
const maxClientsFile = 1 << 20

// clientsFile returns the name of the file that keeps the clients to notify
// after the next start.
func (p *operations) clientsFile() string { return filepath.Join(p.dir, "discover.clients") }

// readClients reads the data that Save wrote. It returns nil if the file does
// not exist.
func readClients(name string) ([]byte, error) {
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

// replaceFile replaces a file atomically. It does not sync: if a power failure
// loses the file, clients notice the restart themselves, later.
func replaceFile(name string, b []byte) error {
	next := name + ".new"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, name)
}
