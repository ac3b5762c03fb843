package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/pingpong"
)

const (
	maxPingpong  = 16 << 20 // bytes of a message
	maxPingpongs = 100_000_000
)

// pingpongOptions are the flags of pingpong.
type pingpongOptions struct {
	server  string // to connect to; "": this end is the server
	service cli.Choice
	port    int
	size    cli.Size
	iters   int
	mtu     int
	local   string
	check   bool
	json    bool
}

func (a *app) newPingpong() *cobra.Command {
	o := pingpongOptions{service: cli.NewChoice("uc", "uc", "ud"), port: pingpong.Port, size: 1 << 10, iters: 1000, mtu: 1024}
	cmd := &cobra.Command{
		Use:   "pingpong [SERVER] --service uc|ud",
		Short: "Test a RoCE fabric by a message exchange, like ibv_uc_pingpong and ibv_ud_pingpong",
		Long: `Exchange messages over RoCEv2, on an InfiniBand Unreliable Connection (uc) or as
Unreliable Datagrams (ud), without an RDMA card. Without SERVER, wait for a
client. The other end is mountrdma too, or ibv_uc_pingpong or ibv_ud_pingpong
from rdma-core on any card or on rdma_rxe, with the same --size, --iters and
--mtu, and with the index of its GID for RoCEv2 and IPv4 (usually -g 1).

The ends exchange parameters over TCP; the messages use UDP port 4791, which must
be open in firewalls, and which no RDMA driver on this host (rdma_rxe) may use. A
lost message is not retransmitted: both ends then wait, and this end gives up
after --timeout.`,
		Example: `  mountrdma pingpong --service ud -c
  ibv_ud_pingpong -g 1 -s 1024 server

  ibv_uc_pingpong -g 1 -c -s 65536 -n 5000
  mountrdma pingpong --service uc -c -s 64KiB -n 5000 server`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("give one server, or none to wait for a client")
			}
			if len(args) == 1 {
				o.server = args[0]
			}
			return errors.Join(
				a.overRoCE(),
				cli.CheckRange("--size", int64(o.size), 0, maxPingpong),
				cli.CheckRange("--iters", int64(o.iters), 1, maxPingpongs),
				cli.CheckRange("--port", int64(o.port), 0, 1<<16-1),
			)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runPingpong(cmd.Context(), &o) },
	}
	f := cmd.Flags()
	f.Var(&o.service, "service", "uc or ud")
	f.VarP(&o.size, "size", "s", "message size in bytes; for ud, at most the path MTU")
	f.IntVarP(&o.iters, "iters", "n", o.iters, "number of messages in each direction")
	f.IntVarP(&o.mtu, "mtu", "m", o.mtu, "path MTU for uc: 256, 512, 1024, 2048 or 4096")
	f.IntVarP(&o.port, "port", "p", o.port, "TCP port for the parameter exchange")
	f.StringVar(&o.local, "local", "", "local address; by default that of the TCP connection")
	f.BoolVarP(&o.check, "check", "c", false, "check contents: a client checks the echoes, a server checks messages from\nclients with -c (rdma-core's or this one)")
	f.BoolVar(&o.json, "json", false, "print a JSON object")
	return cmd
}

// pingpongResult is the output of --json, which scripts depend on.
type pingpongResult struct {
	Service string  `json:"service"`
	Size    int     `json:"size"`
	Iters   int     `json:"iters"`
	Seconds float64 `json:"seconds"`
	IterUs  float64 `json:"us_per_iter"`
	MBps    float64 `json:"MBps"` // both ways
	Checked bool    `json:"checked"`
}

func (a *app) runPingpong(ctx context.Context, o *pingpongOptions) error {
	conn, err := a.connectPingpong(ctx, o)
	if err != nil {
		return err
	}
	defer conn.Close()
	elapsed, err := pingpong.Run(ctx, conn, pingpong.Config{
		Client: o.server != "", Datagram: o.service.Word == "ud", Size: int(o.size), Count: o.iters, MTU: o.mtu,
		Check: o.check, Timeout: a.timeout,
	})
	if err != nil {
		return err
	}
	took := elapsed.Seconds()
	r := pingpongResult{
		Service: o.service.Word, Size: int(o.size), Iters: o.iters, Seconds: took, Checked: o.check,
		IterUs: took * 1e6 / float64(o.iters), MBps: 2 * float64(o.size) * float64(o.iters) / took / 1e6,
	}
	if o.json {
		return printJSON(a.stdout, r)
	}
	checked := ""
	if r.Checked {
		checked = ", contents checked"
	}
	_, err = fmt.Fprintf(a.stdout, "%d messages of %d bytes in each direction in %.2f s: %.1f µs round trip, %.1f MB/s%s\n",
		r.Iters, r.Size, r.Seconds, r.IterUs, r.MBps, checked)
	return err
}

// connectPingpong connects to the server, or waits for a client.
func (a *app) connectPingpong(ctx context.Context, o *pingpongOptions) (net.Conn, error) {
	if o.server != "" {
		ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
		defer cancel()
		d := net.Dialer{}
		if o.local != "" {
			from, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(o.local, "0"))
			if err != nil {
				return nil, fmt.Errorf("--local: %w", err)
			}
			d.LocalAddr = from
		}
		return d.DialContext(ctx, "tcp", net.JoinHostPort(o.server, strconv.Itoa(o.port)))
	}
	addr := net.JoinHostPort(o.local, strconv.Itoa(o.port))
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, cli.ListenError("--port", addr, err, "")
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	if !o.json {
		fmt.Fprintf(a.stdout, "ready %v\n", l.Addr())
	}
	conn, err := l.Accept()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return conn, err
}
