package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/discover"
	"github.com/spf13/cobra"
)

// discoverOptions are the flags of discover.
type discoverOptions struct {
	server string // "" queries all servers
	local  string
	json   bool
}

func (a *app) newDiscover() *cobra.Command {
	var o discoverOptions
	cmd := &cobra.Command{
		Use:   "discover [SERVER]",
		Short: "List servers that respond over RoCE (nfsrdmad serve --discover)",
		Long: `List servers that respond over RoCE: nfsrdmad serve --discover. Without SERVER, a
multicast request goes to all servers on each network of this host, for a second;
with SERVER, a request goes to that server, across any number of routers, until it
responds or --timeout expires.

Neither the server nor this program needs an RDMA card; UDP port 4791 must be free
on this host and open in firewalls. The exit status is 1 if no server responds.`,
		Example: `  mountrdma discover
  mountrdma discover --json server | jq -r '.[].exports[]'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("give one server, or none to query all")
			}
			if len(args) == 1 {
				o.server = strings.Trim(args[0], "[]")
			}
			return errors.Join(a.overRoCE(), a.checkFlags())
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runDiscover(cmd.Context(), &o) },
	}
	cmd.Flags().StringVar(&o.local, "local", "", "local `ADDR` to send from; by default all, or the one that routes to SERVER")
	cmd.Flags().BoolVar(&o.json, "json", false, "print a JSON list")
	return cmd
}

// serverDocument describes a server in the JSON output, which scripts depend on.
type serverDocument struct {
	Address string    `json:"address"`
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Boot    string    `json:"boot"` // hexadecimal; changes with each start
	Since   time.Time `json:"since"`
	RDMA    string    `json:"rdma"`
	TCP     string    `json:"tcp,omitempty"`
	Exports []string  `json:"exports"`
	Total   int       `json:"exports_total"` // more than len(Exports) if some names are too long to send
}

func (a *app) runDiscover(ctx context.Context, o *discoverOptions) error {
	list, err := a.findServers(ctx, o)
	if err != nil {
		return err
	}
	all := make([]serverDocument, 0, len(list))
	for i := range list {
		all = append(all, newServerDocument(&list[i]))
	}
	if o.json {
		return printJSON(a.stdout, all)
	}
	return printServers(a.stdout, all)
}

// findServers queries one server, or all.
func (a *app) findServers(ctx context.Context, o *discoverOptions) ([]discover.Found, error) {
	if o.server == "" {
		return a.findAll(ctx, o.local)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	h, server, err := openRoCETo(ctx, o.server, o.local)
	if err != nil {
		return nil, err
	}
	defer h.close()
	list, err := h.port.Find(ctx, server)
	if errors.Is(err, discover.ErrNoAnswer) {
		return nil, fmt.Errorf("%s did not respond within %v: it needs nfsrdmad serve --discover %s, and firewalls must let UDP port 4791 through", o.server, a.timeout, server)
	}
	return list, err
}

// findAll queries all networks concurrently, or only the network of the address local.
func (a *app) findAll(ctx context.Context, local string) ([]discover.Found, error) {
	from, err := groupAddrs(local)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, min(groupTime, a.timeout))
	defer cancel()
	var mu sync.Mutex
	var list []discover.Found
	var errs []error
	var wg sync.WaitGroup
	for _, addr := range from {
		wg.Go(func() {
			got, err := findFrom(ctx, addr)
			mu.Lock()
			defer mu.Unlock()
			list, errs = append(list, got...), append(errs, err)
		})
	}
	wg.Wait()
	if len(list) == 0 {
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		return nil, errors.New("no server responded: only servers with nfsrdmad serve --discover on this host's networks do; name a server that is on another network")
	}
	for _, err := range errs {
		if err != nil {
			a.printError(err)
		}
	}
	slices.SortFunc(list, func(a, b discover.Found) int { return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Boot, b.Boot)) })
	return slices.CompactFunc(list, func(a, b discover.Found) bool { return a.Addr == b.Addr && a.Boot == b.Boot }), nil
}

// findFrom queries the network of one address. It is no error if no server responds.
func findFrom(ctx context.Context, local netip.Addr) ([]discover.Found, error) {
	h, err := openRoCE(local)
	if err != nil {
		return nil, err
	}
	defer h.close()
	list, err := h.port.Find(ctx, discover.Group(local))
	if errors.Is(err, discover.ErrNoAnswer) {
		err = nil
	}
	return list, err
}

// groupAddrs returns one local address for each network to query: the first of each
// family on each interface that supports multicast.
func groupAddrs(local string) (all []netip.Addr, err error) {
	if local != "" {
		one, err := netip.ParseAddr(local)
		if err != nil {
			return nil, fmt.Errorf("--local %q is no address", local)
		}
		return []netip.Addr{one}, nil
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range interfaces {
		iface := &interfaces[i]
		if iface.Flags&(net.FlagUp|net.FlagMulticast) != net.FlagUp|net.FlagMulticast {
			continue
		}
		addrs, err := iface.Addrs()
		if err != nil {
			return nil, err
		}
		all = append(all, onePerFamily(addrs, iface.Name)...)
	}
	if len(all) == 0 {
		return nil, errors.New("this host has no network with multicast: name a server, or a local address with --local")
	}
	return all, nil
}

// onePerFamily returns the first IPv4 address and the first IPv6 address.
func onePerFamily(addrs []net.Addr, iface string) (all []netip.Addr) {
	var had [2]bool
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		addr, family := p.Addr(), 0
		if addr.Is6() {
			family = 1
		}
		if addr.IsLinkLocalUnicast() && addr.Is6() {
			addr = addr.WithZone(iface)
		}
		if !had[family] {
			all = append(all, addr)
		}
		had[family] = true
	}
	return all
}

func newServerDocument(f *discover.Found) serverDocument {
	d := serverDocument{
		Address: f.Addr.String(), Host: f.Host, Version: f.Version, Boot: fmt.Sprintf("%016x", f.Boot), Since: f.Since,
		RDMA: f.RDMA.String(), Exports: []string{}, Total: int(f.Total),
	}
	if f.TCP.Port() != 0 {
		d.TCP = f.TCP.String()
	}
	for _, e := range f.Exports {
		if e != "" {
			d.Exports = append(d.Exports, e)
		}
	}
	return d
}

// printServers prints a table with one row per server; the exports are the last column.
func printServers(w io.Writer, all []serverDocument) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "SERVER\tHOST\tSINCE\tBOOT\tTCP\tEXPORTS")
	for _, f := range all {
		var names []string
		for _, e := range f.Exports {
			names = append(names, escapePath(e))
		}
		if missing := f.Total - len(f.Exports); missing > 0 {
			names = append(names, fmt.Sprintf("(%d more)", missing))
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n",
			f.RDMA, escapePath(f.Host), f.Since.Local().Format(time.DateTime), f.Boot, cmp.Or(f.TCP, "-"), strings.Join(names, " "))
	}
	return tab.Flush()
}
