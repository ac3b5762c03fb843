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
		Short: "Test a RoCE fabric: messages to and fro, as ibv_uc_pingpong and ibv_ud_pingpong do",
		Long: `Send messages of InfiniBand's Unreliable Connection (uc) or Unreliable Datagram
(ud) to and fro over RoCEv2, without an RDMA card. Without SERVER it waits for a
client. The other end is mountrdma too, or ibv_uc_pingpong or ibv_ud_pingpong of
rdma-core on any card or on rdma_rxe, with the same --size, --iters and --mtu, and
with the index of its GID for RoCEv2 and IPv4 (-g 1 in most cases).

The ends agree over TCP; the messages use UDP port 4791, which firewalls must let
through, and which no RDMA driver of this host (rdma_rxe) may use. A lost message
is not sent again: then both ends wait, and this end gives up after --timeout.`,
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
				cli.Within("--size", int64(o.size), 0, maxPingpong),
				cli.Within("--iters", int64(o.iters), 1, maxPingpongs),
				cli.Within("--port", int64(o.port), 0, 1<<16-1),
			)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pingpong(cmd.Context(), &o) },
	}
	f := cmd.Flags()
	f.Var(&o.service, "service", "uc or ud")
	f.VarP(&o.size, "size", "s", "bytes of a message; of ud, up to the path MTU")
	f.IntVarP(&o.iters, "iters", "n", o.iters, "how many messages each way")
	f.IntVarP(&o.mtu, "mtu", "m", o.mtu, "path MTU of uc: 256, 512, 1024, 2048 or 4096")
	f.IntVarP(&o.port, "port", "p", o.port, "TCP port to agree over")
	f.StringVar(&o.local, "local", "", "address of this end; by default the address of the TCP connection")
	f.BoolVarP(&o.check, "check", "c", false, "check contents: a client checks the echoes, a server the messages that\nrdma-core's clients and this one write with -c")
	f.BoolVar(&o.json, "json", false, "as a JSON object")
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

func (a *app) pingpong(ctx context.Context, o *pingpongOptions) error {
	conn, err := a.pingpongMeet(ctx, o)
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
	_, err = fmt.Fprintf(a.stdout, "%d messages of %d bytes each way in %.2f s: %.1f µs there and back, %.1f MB/s%s\n",
		r.Iters, r.Size, r.Seconds, r.IterUs, r.MBps, checked)
	return err
}

// pingpongMeet connects to the server, or waits for a client.
func (a *app) pingpongMeet(ctx context.Context, o *pingpongOptions) (net.Conn, error) {
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
