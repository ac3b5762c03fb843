package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/bridge"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/spf13/cobra"
)

// bridgeOptions are the flags of bridge.
type bridgeOptions struct {
	server     server
	listenAddr string
	portmap    string
	insecure   bool
	patience   time.Duration
}

func (a *app) newBridge() *cobra.Command {
	var o bridgeOptions
	cmd := &cobra.Command{
		Use:   "bridge [--listen ADDR] [--portmap ADDR] SERVER[:PORT]",
		Short: "Let NFS clients without RDMA use a server on RDMA",
		Long: `Let NFS clients without RDMA use a server on RDMA, until SIGTERM or SIGINT. Then
calls in flight complete, and the exit status is 0.

NFSv3 and MOUNT share the TCP port of --listen. If the server has no MOUNT on
RDMA, as Linux's, the bridge calls its mountd over TCP. With --portmap, a
portmapper tells clients that port; clients query port 111, which only root may
open and only one portmapper can use. Without it, give the port to mount:

    mount -t nfs -o vers=3,proto=tcp,port=2049,mountproto=tcp,mountport=2049,nolock 127.0.0.1:/EXPORT /mnt

Calls keep the user and groups in their credentials: --uid and --gid have no
effect. The server sees this host's address for all of them, so every client that
can connect to the port has this host's access to the server. By default only
root on this host is such a client, whose mounts act for all users: calls from
ports 1024 and above, which any user may open, are denied without --insecure.
Kerberos needs no reserved port: the server authenticates users by their tickets,
and each client has its own connection to the server. A program of an ordinary
user and a client behind NAT need --insecure; then any user of a host that can
connect may act as any other. Locks (NLM) are not forwarded.

While the server is unreachable, calls wait for half a minute, or for --timeout
if given. Then the bridge closes the connections of waiting clients: hard mounts
reconnect, and other clients get an error.

When it accepts connections, it prints one line on standard output:

    ready tcp=ADDR [portmap=ADDR] server=SERVER:PORT`,
		Example: `  mountrdma bridge server
  mountrdma bridge --portmap 127.0.0.1:111 '[2001:db8::1]:20049'
  mountrdma bridge --listen 127.0.0.1:12049 --insecure 'server?mountport=20048'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := a.serverArg(&o.server)(cmd, args); err != nil {
				return err
			}
			if err := o.server.requireOne("bridge", "run one bridge for each server"); err != nil {
				return err
			}
			if a.overTCP() {
				return errors.New("bridge leads to servers over RDMA: clients can reach other servers over TCP themselves")
			}
			o.patience = bridgePatience
			if cmd.Flags().Changed("timeout") {
				o.patience = a.timeout
			}
			if o.listenAddr == "" {
				return errors.New("--listen needs an address, such as 127.0.0.1:2049")
			}
			return errors.Join(cli.CheckAddress("--listen", o.listenAddr), cli.CheckAddress("--portmap", o.portmap))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runBridge(cmd.Context(), &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listenAddr, "listen", "127.0.0.1:2049", "`ADDR` for NFS and MOUNT over TCP")
	f.StringVar(&o.portmap, "portmap", "", "`ADDR` for a portmapper (TCP and UDP), usually 127.0.0.1:111")
	f.BoolVar(&o.insecure, "insecure", false, "accept calls from ports 1024 and above, which any user may open")
	return cmd
}

// runBridge serves until ctx is canceled.
func (a *app) runBridge(ctx context.Context, o *bridgeOptions) error {
	log := slog.New(cli.NewLogHandler(a.stderr, slog.LevelInfo))
	sockets, err := cli.TakeSockets("tcp")
	if err != nil {
		return err
	}
	listeners, err := o.listen(&sockets)
	if cerr := sockets.Close(); cerr != nil {
		log.Warn("cannot close an unused inherited socket", "err", cerr)
	}
	if err != nil {
		return err
	}
	s, mount, err := a.connectBridge(ctx, o, log)
	if err != nil {
		listeners.closeAll()
		return err
	}
	defer s.close()
	defer mount.Close()
	cache := replay.New(&bridge.Bridge{
		NFS: s.line, Credits: func() int { return s.rdma.Conn().Credits() }, MOUNT: mount, Insecure: o.insecure, Log: log,
		Dial: func(ctx context.Context) (bridge.Line, error) {
			return rpcrdma.DialConn(ctx, s.dialer, o.server.addr(), rpcrdma.ClientConnConfig{})
		},
	}, replay.Config{Keep: func(p rpcmsg.Procedure, msg []byte) bool {
		return nfsserver.ExecuteOnce(p, msg) && bridge.Unsigned(msg)
	}})
	defer cache.Close()
	endpoints := listeners.newEndpoints(cache, log)
	if open := cli.NonLoopback(endpoints); len(open) > 0 {
		log.Warn("every host that can connect to these addresses has this host's access to the server, as any user", "addresses", open)
	}
	// If the server is unreachable, no call can complete: close the line now.
	defer context.AfterFunc(ctx, func() {
		if !s.line.Up() {
			_ = s.line.Close()
		}
	})()
	_, err = cli.ServeAll(ctx, endpoints, cli.ReadyLine(endpoints, "server="+o.server.addr()), a.stdout, log)
	return err
}

// connectBridge connects to the server, and finds its MOUNT program.
func (a *app) connectBridge(ctx context.Context, o *bridgeOptions, log *slog.Logger) (*session, *bridge.Mount, error) {
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	cfg := a.commandConfig()
	cfg.Silence, cfg.GiveUp, cfg.Log = o.patience, o.patience, log
	s, err := a.connect(within, o.server, cfg)
	if err != nil {
		return nil, nil, err
	}
	mount := &bridge.Mount{Search: s.client.MountSearch()}
	at, err := mount.Find(within)
	if err != nil {
		s.close()
		return nil, nil, mountError(within, o.server.addr(), err)
	}
	log.Info("MOUNT found on the server", "at", at)
	return s, mount, nil
}

// bridgeListeners are the listeners for clients.
type bridgeListeners struct {
	nfs     net.Listener
	portmap *rpcbind.Listener // may be nil
}

// listen listens on all addresses, or on none.
func (o *bridgeOptions) listen(sockets *cli.Sockets) (l bridgeListeners, err error) {
	if l.nfs, err = sockets.Listen("tcp", o.listenAddr); err != nil {
		return l, cli.ListenError("--listen", o.listenAddr, err, "")
	}
	if o.portmap == "" {
		return l, nil
	}
	if l.portmap, err = rpcbind.Listen(o.portmap); err != nil {
		l.nfs.Close()
		return l, cli.ListenError("--portmap", o.portmap, err,
			fmt.Sprintf(", or omit it and give clients the port, as in mount -o port=%[1]d,mountport=%[1]d", portOf(l.nfs)))
	}
	return l, nil
}

func (l bridgeListeners) closeAll() {
	l.nfs.Close()
	if l.portmap != nil {
		l.portmap.Close()
	}
}

// newEndpoints returns an endpoint for each listener.
func (l bridgeListeners) newEndpoints(handler oncrpc.Service, log *slog.Logger) []cli.Endpoint {
	endpoints := []cli.Endpoint{cli.NewEndpoint("tcp", l.nfs, &oncrpc.Server{Handler: handler, MaxRecord: bridge.MaxRecord, Log: log})}
	if l.portmap != nil {
		p := bridge.Portmap(l.portmap.Services(), l.nfs.Addr().(*net.TCPAddr).AddrPort())
		endpoints = append(endpoints, cli.NewEndpoint("portmap", l.portmap, rpcbind.NewServer(p, log)))
	}
	return endpoints
}

func portOf(l interface{ Addr() net.Addr }) int { return l.Addr().(*net.TCPAddr).Port }
