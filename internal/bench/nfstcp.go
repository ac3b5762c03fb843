package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/loadgen"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

const nfsTCPRole = "nfstcp"

// nfsTCP makes calls of NFS over TCP, as mountrdma bench does over RDMA. Its arguments are
// the server's address, the file, the kind of call, the bytes of a READ or WRITE, the depth,
// the time, and for TLS the directory of the certificate.
func nfsTCP(args []string) error {
	size, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	calls, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(args[5])
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := dialNFS(ctx, args[0], args[6:])
	if err != nil {
		return err
	}
	defer c.Close()
	root, err := nfsclient.NewMount(c, nil).Mnt(ctx, exportName)
	if err != nil {
		return err
	}
	client := nfsclient.New(c, nfsclient.Config{})
	fs, err := client.FS(ctx, root, exportName)
	if err != nil {
		return err
	}
	link := loadgen.Link{Client: client, FS: fs}
	load, err := loadgen.New(ctx, link, args[1], loadgen.Config{Op: args[2], Block: size, Depth: calls, Time: d})
	if err != nil {
		return err
	}
	res, err := load.Run(ctx, []loadgen.Link{link})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(resultOf(&res))
}

// resultOf returns the result of a load.
func resultOf(res *loadgen.Result) *result {
	r := &result{Seconds: res.Seconds, Bytes: float64(res.Bytes), Ops: float64(res.Ops), Client: res.CPU.Seconds()}
	r.Latency.P50, r.Latency.P99 = float64(res.P50)/1e3, float64(res.P99)/1e3
	return r
}

// dialNFS connects to a server, inside of TLS if the directory of a certificate is given.
func dialNFS(ctx context.Context, addr string, dir []string) (*oncrpc.TCPClient, error) {
	nc, err := dial(addr)
	if err != nil {
		return nil, err
	}
	if len(dir) > 0 {
		host, _, _ := net.SplitHostPort(addr)
		secure, err := rpctls.NewClient(rpctls.ClientConfig{Files: rpctls.Files{CA: filepath.Join(dir[0], certFile)}, Host: host})
		if err != nil {
			nc.Close()
			return nil, fmt.Errorf("TLS: %w", err)
		}
		if nc, err = secure.Secure(ctx, nc, nfs3.Program, nfs3.Version); err != nil {
			return nil, err
		}
	}
	return oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{}), nil
}
