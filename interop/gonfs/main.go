// Command gonfs serves willscott/go-nfs's in-memory file system over both RDMA and TCP.
// go-nfs is an NFS server over TCP without knowledge of RDMA: the tests' peer behind a
// stream.Listener.
//
//	gonfs serve --listen 127.0.0.1:0 --tcp 127.0.0.1:0
//
// It prints one line that starts with ready, as nfsrdmad does, and ends with an
// interrupt.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/willscott/go-nfs"

	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gonfs:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("gonfs serve", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:20049", "address for RDMA")
	tcp := flags.String("tcp", "127.0.0.1:2049", "address for TCP, which MOUNT uses")
	if len(args) == 0 || args[0] != "serve" {
		return fmt.Errorf("usage: gonfs serve [flags]")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	h, err := memoryHandler()
	if err != nil {
		return err
	}
	over, err := iwarp.Open(iwarp.Config{}).Listen("tcp", *listen)
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", *tcp)
	if err != nil {
		return err
	}
	rdma := streamListener(over)
	rdma.Server.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	fmt.Printf("ready rdma=%v tcp=%v\n", rdma.Addr(), plain.Addr())

	ended := make(chan error, 2)
	for _, l := range []net.Listener{rdma, plain} {
		go func() { ended <- nfs.Serve(l, h) }()
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return rdma.Close()
	}
}
