package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/discover"
	"github.com/spf13/cobra"
)

// topOptions are the flags of top.
type topOptions struct {
	server   string
	local    string
	interval time.Duration
	count    int
	json     bool
}

func (a *app) newTop() *cobra.Command {
	o := topOptions{interval: time.Second}
	cmd := &cobra.Command{
		Use:   "top SERVER|MOUNTPOINT",
		Short: "Show the live load of a server (nfsrdmad serve --discover) or of a mount",
		Long: `Show the live load of a server: its connections, and for each procedure the call
rate and the mean time. nfsrdmad serve --discover writes its counters into this
program's memory, by RDMA Write with Immediate over Unreliable Connection; a lost
update is skipped. The server does so only for hosts in its --monitors, and for
itself.

For a mount, show what nfsiostat shows for the kernel's mounts: for each operation
calls and kilobytes (1024 bytes) per second, kilobytes per call, retransmitted
calls, mean times per call in milliseconds, and errors. A call's time in the queue
is part of RTT and EXE, which are equal here; a call that is retransmitted on
another connection counts once.

The first rates are averages since the server started or the file system was
mounted, later ones since the last update. On a terminal, each update replaces the
last.`,
		Example: `  mountrdma top server
  mountrdma top server -n 2 --interval 10s
  mountrdma top --json server | jq --unbuffered .procedures
  mountrdma top /mnt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("top needs one server or mount point: SERVER or MOUNTPOINT")
			}
			if o.server = strings.Trim(args[0], "[]"); isMountPoint(o.server) && o.local != "" {
				return errors.New("--local is for servers: omit it")
			}
			switch {
			case o.interval < discover.MinInterval || o.interval > discover.MaxInterval:
				return fmt.Errorf("--interval %v is not between %v and %v", o.interval, discover.MinInterval, discover.MaxInterval)
			case o.count < 0:
				return errors.New("--count is below 0")
			}
			return a.checkFlags()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if isMountPoint(o.server) {
				return a.topMount(cmd.Context(), &o)
			}
			return a.runTop(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.interval, "interval", o.interval, "time between updates")
	f.IntVarP(&o.count, "count", "n", 0, "number of updates to show; 0 for no limit")
	f.StringVar(&o.local, "local", "", "local `ADDR` to send from; by default the one that routes to SERVER")
	f.BoolVar(&o.json, "json", false, "print a JSON object for each update")
	return cmd
}

// runTop shows updates until it has shown o.count of them.
func (a *app) runTop(ctx context.Context, o *topOptions) error {
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	h, server, err := openRoCETo(within, o.server, o.local)
	if err != nil {
		return err
	}
	defer h.close()
	v := topView{app: a, o: o, server: server, redraw: !o.json && cli.IsTerminal(a.stdout)}
	err = h.port.Watch(ctx, server, o.interval, a.timeout, v.showUpdate)
	var refused *discover.RefusedError
	switch {
	case v.err != nil:
		return v.err
	case errors.Is(err, discover.ErrNoAnswer) && ctx.Err() == nil:
		return fmt.Errorf("%s did not respond within %v: it needs nfsrdmad serve --discover %s, and firewalls must let UDP port 4791 through", o.server, a.timeout, server)
	case errors.As(err, &refused):
		return fmt.Errorf("%s says: %s", o.server, refused.Reason)
	}
	return err
}

// A topView is the display's state.
type topView struct {
	*app
	o      *topOptions
	server netip.Addr
	redraw bool
	last   *discover.Counters // nil: none yet
	lost   uint32             // number of lost updates
	shown  int
	err    error
}

// showUpdate shows an update and reports whether to continue.
func (v *topView) showUpdate(c *discover.Counters) bool {
	if v.last != nil && v.last.Boot == c.Boot {
		ahead := int32(c.Sequence - v.last.Sequence)
		if ahead <= 0 && c.Uptime <= v.last.Uptime {
			return true // a duplicate
		}
		v.lost += uint32(max(ahead-1, 0))
	}
	before := v.last
	if before == nil || before.Boot != c.Boot {
		before = new(discover.Counters)
	}
	if v.o.json {
		v.err = printJSON(v.stdout, v.newDocument(c))
	} else {
		v.err = v.printText(c, before)
	}
	v.last = c
	v.shown++
	return v.err == nil && v.shown != v.o.count
}

// topDocument is an update as JSON, which scripts depend on.
type topDocument struct {
	Server     string         `json:"server"`
	Boot       string         `json:"boot"`
	Sequence   uint32         `json:"sequence"`
	Lost       uint32         `json:"lost"` // number of lost updates so far
	Draining   bool           `json:"draining"`
	Uptime     float64        `json:"uptime_seconds"`
	Transports []topTransport `json:"transports"`
	Procedures []topProc      `json:"procedures"`
}

type topTransport struct {
	Name        string `json:"name"`
	Connections uint32 `json:"connections"`
	UnderWay    uint32 `json:"calls_under_way"`
	Accepted    uint64 `json:"accepted"`
	Refused     uint64 `json:"refused"`
	In          uint64 `json:"bytes_in"` // on the current connections
	Out         uint64 `json:"bytes_out"`
}

type topProc struct {
	Program string  `json:"program"`
	Name    string  `json:"procedure"`
	Calls   uint64  `json:"calls"`
	Errors  uint64  `json:"errors"`
	In      uint64  `json:"bytes_in"`
	Out     uint64  `json:"bytes_out"`
	Seconds float64 `json:"seconds"` // sum over all calls
}

func (v *topView) newDocument(c *discover.Counters) *topDocument {
	d := &topDocument{
		Server: v.server.String(), Boot: fmt.Sprintf("%016x", c.Boot), Sequence: c.Sequence, Lost: v.lost,
		Draining: c.Draining, Uptime: c.Uptime.Seconds(), Transports: []topTransport{}, Procedures: []topProc{},
	}
	for _, t := range c.Transports {
		d.Transports = append(d.Transports, topTransport(t))
	}
	for _, p := range c.Procs {
		d.Procedures = append(d.Procedures, topProc{p.Program, p.Name, p.Calls, p.Errors, p.In, p.Out, p.Took.Seconds()})
	}
	return d
}
